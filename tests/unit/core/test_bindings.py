"""Arguments that name another job of the group."""

from typing import Any

import pytest

from tests.support.builders import EXPERIMENT_ID, queued, spec
from xmcloud.core.bindings import bind, names_bound
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job, Member, Peer
from xmcloud.core.specs import Argument

PEERS = {
    "chief": Peer(host="10.0.0.1", port=7000),
    "chief-2": Peer(host="10.0.0.2", port=7001),
    "worker": Peer(host="bee.local", port=7002),
}
FULL = f"{EXPERIMENT_ID}_1_"


def member(*values: Any, **environment: str) -> Job:
    """The first job of a group, with those arguments."""
    job = queued(spec(arguments=tuple(Argument(value=value) for value in values)))
    ids = (job.id, "k" * 16, "m" * 16)
    members = tuple(Member(id=id, name=name) for id, name in zip(ids, PEERS, strict=True))
    with_environment = job.spec.evolve(environment=environment)
    return job.evolve(name="chief", group=members, spec=with_environment)


def bound(*values: Any) -> list[Any]:
    return [argument.value for argument in bind(member(*values), PEERS).spec.arguments]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%objectname(worker)%", "bee.local:7002"),
        ("--at=%objectname(worker)%,%objectname(chief)%", "--at=bee.local:7002,10.0.0.1:7000"),
        (f"%objectname({FULL}worker)%", "bee.local:7002"),
        ("%objectname(workerpool0)%", "10.0.0.1:7000"),
        ("http://%objectname(workerpool2)%/", "http://bee.local:7002/"),
        (f"{FULL}worker:8080", "bee.local:8080"),
        (f"http://{FULL}chief:80/{FULL}worker:81", "http://10.0.0.1:80/bee.local:81"),
        (f"{FULL}chief-2:1", "10.0.0.2:1"),
        ("worker:8080", None),
        (f"{FULL}worker", None),
        (f"{FULL}worker:port", None),
        (f"x{FULL}worker:1", None),
        (f"{FULL}stranger:1", None),
        ("100%", None),
        ("%objectname", None),
        ("", None),
    ],
)
def test_names_become_addresses(text: str, expected: str | None) -> None:
    assert bound(text) == [text if expected is None else expected]


def test_values_keep_their_types_and_lists_are_filled() -> None:
    values = [1, None, True, 0.5, ["%objectname(chief)%", ["%objectname(worker)%", 2]]]
    assert bound(*values) == [*values[:4], ["10.0.0.1:7000", ["bee.local:7002", 2]]]


def test_the_environment_is_filled() -> None:
    job = bind(member(MASTER="%objectname(chief)%", HOST=f"{FULL}chief:1"), PEERS)
    assert job.spec.environment == {"MASTER": "10.0.0.1:7000", "HOST": "10.0.0.1:1"}


@pytest.mark.parametrize("name", ["stranger", "", "workerpool3", "workerpool-1", "WORKER"])
def test_an_unknown_name_is_refused_and_the_known_ones_told(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        bound(f"%objectname({name})%")
    assert refused.value.field == "arguments"
    assert "chief, chief-2, worker" in str(refused.value) + refused.value.remedy


def test_a_job_alone_has_no_peers() -> None:
    job = queued(spec(arguments=(Argument(value=f"{FULL}train:1"),)))
    assert bind(job, {}) == job
    alone = queued(spec(arguments=(Argument(value="%objectname(train)%"),)))
    with pytest.raises(InvalidInput) as refused:
        bind(alone, {})
    assert "the job is alone" in str(refused.value) + refused.value.remedy


def test_a_name_of_a_job_goes_before_its_number() -> None:
    job = member("%objectname(workerpool0)%")
    members = (*job.group[:2], job.group[2].evolve(name="workerpool0"))
    peers = {**PEERS, "workerpool0": Peer(host="elk", port=1)}
    renamed = bind(job.evolve(group=members), peers)
    assert renamed.spec.arguments[0].value == "elk:1"


def test_the_names_that_are_bound_are_known_beforehand() -> None:
    job = member("%objectname(a)%", ["%objectname(b)%%objectname(c)%", 1], 2, E="%objectname(d)%")
    assert names_bound(job.spec) == {"a", "b", "c", "d"}
