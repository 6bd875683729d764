"""Jobs and groups, what `add` does to them, their names, and what they get in the end."""

import functools
from dataclasses import dataclass
from typing import Any

import pytest

from xmcloud import xm


class Spec(xm.ExecutorSpec):
    pass


@dataclass(frozen=True)
class Somewhere(xm.Executor):
    Spec = Spec


EXECUTABLE = xm.Executable("trainer")


def job(name: str = "", args: xm.UserArgs = None, env_vars: xm.UserEnv | None = None) -> xm.Job:
    return xm.Job(EXECUTABLE, Somewhere(), name, args, env_vars)


def applied(unit: xm.Job, args: Any) -> xm.Job:
    result = xm.apply_args(unit, args)
    assert isinstance(result, xm.Job)
    return result


def test_a_job_parses_its_arguments_and_environment() -> None:
    made = job(args={"a": 1}, env_vars={"A": 1})
    assert made.args == xm.merge_args({"a": 1})
    assert made.env_vars == {"A": "1"}
    assert made.name == ""


def test_a_job_without_a_name_may_say_none() -> None:
    assert xm.Job(EXECUTABLE, Somewhere(), name=None) == job()


def test_a_job_refuses_what_its_parts_refuse() -> None:
    with pytest.raises(ValueError, match="bare string"):
        job(args="--a")
    with pytest.raises(ValueError, match="no valid name"):
        job(env_vars={"A-B": 1})


def test_an_executor_knows_the_spec_of_its_executables() -> None:
    assert isinstance(Somewhere.Spec(), Spec)


def test_a_group_names_its_members() -> None:
    first, second = job("a"), xm.JobGroup(inner=job("b"))
    assert xm.JobGroup(first=first, second=second).jobs == {"first": first, "second": second}


def test_a_group_can_be_filled_later_and_take_any_name() -> None:
    group = xm.JobGroup()
    group.jobs["node-0"] = job()
    group.jobs |= xm.JobGroup(self=job()).jobs
    assert list(xm.named_jobs(xm.apply_args(group, None))) == ["node-0", "self"]


@pytest.mark.parametrize("member", [3, None, lambda unit: None, [job()]])
def test_a_group_holds_jobs_and_groups_only(member: Any) -> None:
    with pytest.raises(TypeError, match=r"worker is .*; a group holds"):
        xm.JobGroup(worker=member)


class SameMachine(xm.Constraint):
    pass


def test_a_group_keeps_its_constraints() -> None:
    constraint = SameMachine()
    group = xm.JobGroup(a=job(), constraints=(constraint,))
    assert list(group.jobs) == ["a"]
    assert group.constraints == [constraint]
    outer = xm.apply_args(xm.JobGroup(inner=group), None)
    assert isinstance(outer, xm.JobGroup)
    assert outer.constraints == []
    inner = outer.jobs["inner"]
    assert isinstance(inner, xm.JobGroup)
    assert inner.constraints == [constraint]


@pytest.mark.parametrize("constraints", [job(), [job()], SameMachine(), "text"])
def test_constraints_are_a_list_of_them(constraints: Any) -> None:
    with pytest.raises(TypeError, match=r"constraints is .*; give a list of xm.Constraint"):
        xm.JobGroup(constraints=constraints)


async def generator(work_unit: xm.WorkUnit) -> None:
    await work_unit.add(job())


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (generator, True),
        (functools.partial(generator), True),
        (lambda work_unit: None, True),
        (job(), False),
        (xm.JobGroup(a=job()), False),
        (xm.AuxiliaryUnitJob(job(), termination_delay_secs=0), False),
        (xm.JobConfig(), False),
        (None, False),
    ],
)
def test_a_generator_is_what_can_be_called(candidate: Any, expected: bool) -> None:
    assert xm.is_job_generator(candidate) is expected


def test_arguments_for_all_jobs() -> None:
    group = xm.JobGroup(a=job(), b=xm.JobGroup(c=job()))
    everywhere = xm.get_args_for_all_jobs(group, {"x": 1})
    assert everywhere == {"a": {"args": {"x": 1}}, "b": {"c": {"args": {"x": 1}}}}
    assert xm.get_args_for_all_jobs(job(), {"x": 1}) == {"args": {"x": 1}}
    everywhere["a"]["args"]["x"] = 2
    assert everywhere["b"]["c"]["args"] == {"x": 1}
    everywhere = xm.get_args_for_all_jobs(group, {"x": 1})
    members = xm.named_jobs(xm.apply_args(group, everywhere)).values()
    assert [member.args.to_argv() for member in members] == [["--x=1"], ["--x=1"]]


def test_adding_puts_its_arguments_and_environment_over_the_jobs() -> None:
    base = job(args={"a": 1, "b": 2}, env_vars={"A": 1, "B": 2})
    result = applied(base, {"args": {"a": 3, "b": None, "c": 4}, "env_vars": {"B": 5, "C": 6}})
    assert result.args.to_argv() == ["--a=3", "--c=4"]
    assert result.env_vars == {"A": "1", "B": "5", "C": "6"}


def test_adding_copies_the_job() -> None:
    base = job(args=["a"], env_vars={"A": 1})
    copies = [applied(base, {"args": ["b"], "env_vars": {"B": 1}}) for _ in range(2)]
    plain = applied(base, None)
    plain.name, plain.env_vars["C"] = "changed", "1"
    assert [copy.args.to_argv() for copy in copies] == [["a", "b"], ["a", "b"]]
    assert base == job(args=["a"], env_vars={"A": 1})
    assert copies[0].executor is base.executor


def test_adding_a_group_reaches_members_by_name() -> None:
    group = xm.JobGroup(a=job(args={"x": 1}), b=xm.JobGroup(c=job(), d=job()))
    result = xm.apply_args(group, {"a": {"args": {"x": 2}}, "b": {"d": {"env_vars": {"E": 1}}}})
    named = xm.named_jobs(result)
    assert [named[name].args.to_argv() for name in named] == [["--x=2"], [], []]
    assert [named[name].env_vars for name in named] == [{}, {}, {"E": "1"}]
    assert xm.named_jobs(group)["a"].args.to_argv() == ["--x=1"]


@pytest.mark.parametrize(
    ("unit", "args", "message"),
    [
        (job(), {"lr": 1}, "args holds 'lr'; only args, env_vars can stand there"),
        (job(), {"args": {}, "name": "x"}, "args holds 'name'"),
        (job(), [1], r"args is \[1\]; give a mapping"),
        (xm.JobGroup(a=job()), {"b": {}}, "args holds 'b'; only a can stand there"),
        (xm.JobGroup(a=job()), {"args": {}}, "args holds 'args'"),
        (xm.JobGroup(a=job()), {"a": {"lr": 1}}, r"args\['a'\] holds 'lr'"),
        (xm.JobGroup(a=job()), {"a": 1}, r"args\['a'\] is 1; give a mapping"),
        (xm.JobGroup(a=xm.JobGroup(b=job())), {"a": {"c": {}}}, r"args\['a'\] holds 'c'"),
    ],
)
def test_adding_refuses_what_reaches_no_job(
    unit: xm.Job | xm.JobGroup, args: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        xm.apply_args(unit, args)


def test_default_names_are_the_executables_or_the_path_of_keys() -> None:
    group = xm.JobGroup(a=job(), b=xm.JobGroup(c=job("given"), d=job()))
    named = xm.named_jobs(group)
    assert list(named) == ["a", "given", "b_d"]
    assert [member.name for member in named.values()] == ["a", "given", "b_d"]
    assert list(xm.named_jobs(job())) == ["trainer"]
    assert list(xm.named_jobs(job("own"))) == ["own"]


def test_naming_leaves_the_group_alone() -> None:
    group = xm.JobGroup(a=job())
    xm.named_jobs(group)
    assert group == xm.JobGroup(a=job())


def test_two_jobs_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two jobs of the group are named 'a_b'"):
        xm.named_jobs(xm.JobGroup(a_b=job(), a=xm.JobGroup(b=job())))


def test_the_jobs_arguments_and_environment_are_over_its_packageables() -> None:
    executable = xm.Executable(
        "trainer", args=xm.merge_args({"a": 1, "b": 2}, ["p"]), env_vars={"A": "1", "B": "2"}
    )
    made = xm.Job(executable, Somewhere(), args={"b": 3, "c": 4}, env_vars={"B": 5, "C": 6})
    added = applied(made, {"args": {"c": 7}, "env_vars": {"C": 8}})
    assert xm.effective_args(added).to_argv() == ["--a=1", "--b=3", "p", "--c=7"]
    assert xm.effective_env_vars(added) == {
        "PYTHONUNBUFFERED": "1",
        "A": "1",
        "B": "5",
        "C": "8",
    }


def test_a_job_may_buffer_its_output() -> None:
    assert xm.effective_env_vars(job(env_vars={"PYTHONUNBUFFERED": ""})) == {"PYTHONUNBUFFERED": ""}
