import pytest

from xmcloud.core import errors
from xmcloud.core.errors import XmcloudError
from xmcloud.core.protocol import Problem
from xmcloud.xm_cloud.problems import error_of

RAISED = [
    errors.InvalidInput("queue", "x", "a name"),
    errors.NotFound("job", "abc", "Look."),
    errors.IllegalTransition("stop", "abc", "draft", ["queued"]),
    errors.KeyReused("key"),
    errors.Contended("Job x"),
    errors.Unauthorized("No token.", "Send one."),
    errors.TooLarge("The body", 2, 1),
    errors.Unavailable("Down.", "Wait."),
    errors.StorageFull("/x"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: error.slug)
def test_an_error_arrives_as_it_was_raised(error: XmcloudError) -> None:
    arrived = error_of(Problem.model_validate_json(Problem.of(error).model_dump_json()))
    assert type(arrived) is type(error)
    assert (str(arrived), arrived.detail, arrived.remedy) == (
        str(error), error.detail, error.remedy,
    )  # fmt: skip


def test_the_field_arrives() -> None:
    arrived = error_of(Problem.of(errors.InvalidInput("queue", "x", "a name")))
    assert isinstance(arrived, errors.InvalidInput)
    assert arrived.field == "queue"


def test_a_kind_that_is_not_known_keeps_its_status() -> None:
    problem = Problem(type="urn:xmcloud:problem:new", title="New", status=418, detail="Tea.")
    arrived = error_of(problem)
    assert isinstance(arrived, XmcloudError)
    assert (arrived.status, arrived.title, str(arrived)) == (418, "New", "Tea.")


def test_who_is_not_signed_in_hears_how() -> None:
    problem = Problem(
        type="urn:xmcloud:problem:unauthorized", title="Not signed in", status=401, detail="No."
    )
    assert "XMCLOUD_TOKEN" in str(error_of(problem))
