"""Models come back from their documents as they went in."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from tests.support.builders import draft, in_state, session, spec
from tests.support.clock import START
from xmcloud.core.base import sortable
from xmcloud.core.documents import BODY_LIMIT, JOBS, SESSIONS
from xmcloud.core.errors import TooLarge
from xmcloud.core.models import Job, JobState
from xmcloud.core.ports import Document
from xmcloud.core.specs import Argument


def stored(job: Job) -> Job:
    """Through the text of a document, as every adapter keeps it."""
    data = json.loads(json.dumps(JOBS.data(job), ensure_ascii=False))
    return JOBS.read(Document(job.id, data, "1")).item


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal, with equal types all the way down: 1, 1.0, True and '1' are four things."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


VALUES: list[JsonValue] = [
    False,
    None,
    [None],
    1.0,
    1,
    True,
    "1",
    "",
    "None",
    [[1, [2.0]], {"a": [None, {"b": False}]}],
    -0.0,
    1e300,
    2**53 + 1,
    2**63,
    10**30,
    "Überprüfung ✓ 🚀 \u2028 \x01",
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_typed_parameter_survives(value: JsonValue) -> None:
    job = draft(spec(arguments=(Argument(name="x", value=value),)))
    (back,) = stored(job).spec.arguments
    assert same(back.value, value)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_any_parameter_survives(value: JsonValue) -> None:
    job = draft(spec(arguments=(Argument(value=value),)))
    assert same(stored(job).spec.arguments[0].value, value)


@pytest.mark.parametrize("state", JobState)
def test_a_job_in_any_state_survives(state: JobState) -> None:
    job = in_state(state)
    assert stored(job) == job
    fields = JOBS.data(job)
    assert fields["state"] == state.value
    assert fields["session"] == (job.attempt.session if job.attempt else "")
    assert ("permit_due_at" in fields) == (state is JobState.QUEUED)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_is_refused_at_the_edge(value: float) -> None:
    with pytest.raises(ValidationError):
        Argument(value=value)


def test_a_document_has_a_limit() -> None:
    value = "x" * BODY_LIMIT
    with pytest.raises(TooLarge, match="This job has"):
        JOBS.data(draft(spec(arguments=(Argument(value=value),))))


times = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001
    max_value=datetime(9000, 1, 1),  # noqa: DTZ001
).map(lambda time: time.replace(tzinfo=UTC))


@given(times, times)
def test_the_text_of_times_sorts_as_they_do(one: datetime, other: datetime) -> None:
    assert (sortable(one) < sortable(other)) == (one < other)


def test_a_time_of_another_zone_is_kept_in_utc() -> None:
    there = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
    held = session().evolve(opened_at=there, expires_at=there)
    assert held.opened_at.utcoffset() == timedelta(0)
    assert SESSIONS.data(held)["expires_at"] == "2030-01-01T00:00:00.000000Z"
    with pytest.raises(ValidationError):
        session().evolve(opened_at=START.replace(tzinfo=None))
