"""Roles, status and errors of units, and main functions."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Self

import pytest

from xmcloud import xm


class Unit(xm.WorkUnit):
    """A unit of an experiment that nothing runs."""

    experiment_id = "exp"
    identity = ""
    work_unit_id = 3
    experiment_unit_name = "exp_3"
    launched_jobs: Sequence[xm.LaunchedJob] = ()

    @property
    def context(self) -> xm.MetadataContext:
        raise NotImplementedError

    def add(
        self, job: xm.JobType, args: Mapping[str, Any] | None = None, *, identity: str = ""
    ) -> Awaitable[None]:
        raise NotImplementedError

    async def wait_until_complete(self) -> Self:
        return self

    def stop(
        self,
        *,
        mark_as_failed: bool = False,
        mark_as_completed: bool = False,
        message: str | None = None,
    ) -> None:
        raise NotImplementedError

    def get_status(self) -> xm.ExperimentUnitStatus:
        return xm.ExperimentUnitStatus(xm.UnitState.ACTIVE)


def test_the_full_name_of_a_job_begins_with_its_units() -> None:
    assert Unit().get_full_job_name("server") == "exp_3_server"


def test_a_unit_says_which_it_is() -> None:
    assert str(Unit()) == "WorkUnit(experiment_id=exp, work_unit_id=3)"


def test_waiting_for_completion_is_waiting_until_complete() -> None:
    unit = Unit()
    assert asyncio.run(unit.wait_for_completion()) is unit


def test_roles_have_defaults() -> None:
    role = xm.WorkUnitRole()
    assert (role.importance, role.tags) == (xm.Importance.NORMAL, ())
    assert xm.WorkUnitRole(tags=["a"], importance=xm.Importance.HIGH).tags == ("a",)
    assert [importance.value for importance in xm.Importance] == ["high", "normal", "low"]


def test_tags_are_no_bare_string() -> None:
    with pytest.raises(ValueError, match=r"tags .* write \['abc'\]"):
        xm.WorkUnitRole(tags="abc")


def test_an_auxiliary_unit_says_how_long_it_outlives_the_work() -> None:
    executor = xm.Executor()
    job = xm.Job(xm.Executable("board"), executor)
    auxiliary = xm.AuxiliaryUnitJob(job, importance=xm.Importance.LOW, termination_delay_secs=60)
    assert auxiliary.job is job
    assert auxiliary.role == xm.AuxiliaryUnitRole(
        importance=xm.Importance.LOW, termination_delay_secs=60
    )
    with pytest.raises(ValueError, match="termination_delay_secs is -1"):
        xm.AuxiliaryUnitRole(termination_delay_secs=-1)


@pytest.mark.parametrize(
    ("state", "active", "completed", "failed"),
    [
        (xm.UnitState.ACTIVE, True, False, False),
        (xm.UnitState.COMPLETED, False, True, False),
        (xm.UnitState.FAILED, False, False, True),
        (xm.UnitState.STOPPED, False, False, False),
    ],
)
def test_a_status_is_one_of_four(
    state: xm.UnitState, active: bool, completed: bool, failed: bool
) -> None:
    status = xm.ExperimentUnitStatus(state, "why")
    assert (status.is_active, status.is_completed, status.is_failed) == (active, completed, failed)
    assert status.message == "why"


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (xm.UnitState.FAILED, xm.ExperimentUnitFailedError, "exp_3 failed: why"),
        (xm.UnitState.STOPPED, xm.ExperimentUnitNotCompletedError, "exp_3 was stopped: why"),
    ],
)
def test_a_unit_that_did_not_complete_is_an_error(
    state: xm.UnitState, error: type[xm.ExperimentUnitError], message: str
) -> None:
    unit = Unit()
    raised = xm.completion_error(xm.ExperimentUnitStatus(state, "why"), unit)
    assert type(raised) is error
    assert str(raised) == message
    assert raised.work_unit is unit
    assert (
        str(xm.completion_error(xm.ExperimentUnitStatus(state), unit)) == message[: -len(": why")]
    )


@pytest.mark.parametrize("state", [xm.UnitState.COMPLETED, xm.UnitState.ACTIVE])
def test_other_units_are_no_error(state: xm.UnitState) -> None:
    assert xm.completion_error(xm.ExperimentUnitStatus(state), Unit()) is None


def test_errors_of_units_are_runtime_errors() -> None:
    assert issubclass(xm.ExperimentUnitFailedError, xm.ExperimentUnitError)
    assert issubclass(xm.ExperimentUnitNotCompletedError, xm.ExperimentUnitError)
    assert isinstance(xm.ExperimentUnitError("x"), RuntimeError)
    assert xm.ExperimentUnitError("x").work_unit is None


def test_what_is_not_found_is_a_key_and_a_value() -> None:
    error = xm.NotFoundError("no experiment abc")
    assert isinstance(error, KeyError)
    assert isinstance(error, ValueError)
    assert str(error) == "no experiment abc"


def test_an_async_main_is_called_like_any_other() -> None:
    @xm.run_in_asyncio_loop
    async def main(argument: int, *, add: int) -> int:
        return argument + add

    assert main(1, add=2) == 3
    assert main.__name__ == "main"


@pytest.mark.anyio
async def test_an_async_main_can_be_called_where_a_loop_runs() -> None:
    label = ContextVar("label", default="outside")
    outer = asyncio.get_running_loop()

    @xm.run_in_asyncio_loop
    async def main() -> tuple[bool, str]:
        return asyncio.get_running_loop() is outer, label.get()

    label.set("inside")
    assert main() == (False, "inside")


def test_what_an_async_main_raises_is_raised() -> None:
    @xm.run_in_asyncio_loop
    async def main() -> None:
        raise xm.ExperimentUnitError("no")

    with pytest.raises(xm.ExperimentUnitError, match="no"):
        main()


def test_importing_the_vocabulary_imports_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); from xmcloud import xm; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(*sorted(new - set(sys.stdlib_module_names)), 'asyncio' in new)"
    )
    output = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert output.split() == ["xmcloud", "False"]
