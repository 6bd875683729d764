from typing import Any

import pytest

from tests.unit.xm_cloud.jobs import job
from xmcloud.core.models import Execution, Job, JobState, Member
from xmcloud.core.runs import for_its_process, own_resource
from xmcloud.core.specs import Argument, Command, Image, JobSpec, PythonSource
from xmcloud.xm_cloud.comparing import facts
from xmcloud.xm_cloud.comparing.differences import Change, Section, between, equal
from xmcloud.xm_cloud.comparing.jobs import Side, compare, compared_results, definitions
from xmcloud.xm_cloud.comparing.pairing import pair
from xmcloud.xm_cloud.comparing.reproduction import reproduction
from xmcloud.xm_cloud.comparing.texts import changed, of_patch, unified

VALUES: list[Any] = [False, None, [None], 1.0, 1, "1", 0, "", [], {}]


def spec(*arguments: Argument, **fields: Any) -> JobSpec:
    return JobSpec(**{"executable": Command(command=("x",)), "arguments": arguments, **fields})


def changes(a: JobSpec, b: JobSpec) -> dict[tuple[str, str], Change]:
    found = definitions(a, b)
    return {(d.section, d.name): d.change for d in found if d.change is not Change.EQUAL}


@pytest.mark.parametrize("a", VALUES, ids=repr)
def test_values_of_different_types_are_different(a: Any) -> None:
    assert [b for b in VALUES if equal(a, b)] == [a]
    assert [type(b) for b in VALUES if equal(a, b)] == [type(a)]


def test_what_only_one_has_is_told_from_what_is_null() -> None:
    found = {d.name: d.change for d in between(Section.RESULTS, {"x": None, "y": 1}, {"x": None})}
    assert found == {"x": Change.EQUAL, "y": Change.REMOVED}
    (added,) = between(Section.RESULTS, {}, {"x": None})
    assert added.change is Change.ADDED


def test_arguments_are_named_by_flag_or_place() -> None:
    words = (Argument(value="one"), Argument(name="lr", value=1), Argument(value="two"))
    told = facts.defined(spec(*words))[Section.PARAMETERS]
    assert told == {"argument 1": "one", "lr": 1, "argument 2": "two"}
    plain, shell = Argument(name="d", value="$X"), Argument(name="d", value="$X", shell=True)
    assert changes(spec(plain), spec(shell)) == {("parameters", "d"): Change.CHANGED}


def test_requirements_are_compared_by_package() -> None:
    def source(requirements: str) -> JobSpec:
        code = PythonSource(archive="0" * 64, entrypoint=("x",), requirements=requirements)
        return spec(executable=code)

    a, b = source("# old\nNumPy==1\nscipy\n--pre\n"), source("numpy==2\nscipy\n")
    assert changes(a, b) == {
        ("requirements", "numpy"): Change.CHANGED,
        ("requirements", "--pre"): Change.REMOVED,
    }


def test_resources_limits_and_options_are_told_one_by_one() -> None:
    a = spec(executable=Image(image="x"), resources={"cpu": 1}, pool="gpu")
    b = spec(
        executable=Image.model_validate({"image": "y", "options": {"ports": {80: 8080}}}),
        resources={"cpu": 2, "memory": 5},
        pool="cpu",
        limits={"retries": 3},
        replicas=2,
    )
    assert changes(a, b) == {
        ("code", "image"): Change.CHANGED,
        ("resources", "cpu"): Change.CHANGED,
        ("resources", "memory"): Change.ADDED,
        ("resources", "options.ports.80"): Change.ADDED,
        ("resources", "pool"): Change.CHANGED,
        ("resources", "limit.retries"): Change.CHANGED,
        ("resources", "replicas"): Change.CHANGED,
    }


def test_secret_variables_differ_without_being_shown() -> None:
    a, b = (spec(environment={"MY_TOKEN": text, "SEED": text}) for text in ("1", "2"))
    found = {d.name: (d.a, d.b) for d in definitions(a, b) if d.change is Change.CHANGED}
    assert found == {"MY_TOKEN": ("***", "***"), "SEED": ("1", "2")}


def test_numbers_tell_how_far_they_are_apart() -> None:
    a = job(1, JobState.COMPLETED, results={"a": {"loss": 0.5}, "n": 1, "ok": True, "t": "x"})
    b = job(1, JobState.COMPLETED, results={"a": {"loss": 0.75}, "n": 1, "ok": False, "t": "y"})
    notes = {d.name: d.note for d in compared_results(a, b)}
    assert notes == {"a.loss": "+0.25", "n": "", "ok": "", "t": ""}


def seen(unit: int, **fields: Any) -> Job:
    """A job that a worker ran."""
    ended = job(unit, JobState.COMPLETED)
    ran = Execution(**{"argv": ("x",), "python": "3.12.1", "host": "ant", **fields})
    return ended.evolve(attempts=(ended.attempts[0].evolve(execution=ran),))


def test_packages_and_machines_where_both_are_known() -> None:
    a, b = Side(seen(1), "a", "A_b==1\nc==2\n"), Side(seen(2, host="bee"), "b", "a-b==1\nc==3\n")
    found = {(d.section, d.name) for d in compare(a, b).unequal()}
    assert found == {("packages", "c"), ("machine", "host")}
    assert compare(a, b).unknown == []
    without = Side(seen(2), "b")
    assert compare(a, without).unknown == ["installed packages: b has no list of them"]
    never = compare(a, Side(job(3), "b"))
    assert [text.partition(": ")[2] for text in never.unknown] == ["b never ran on a worker"]
    assert {d.section for d in never.unequal()} == {Section.OUTCOME}


def test_how_a_process_was_recorded_is_no_difference() -> None:
    mine = job(1).evolve(spec=for_its_process(spec(), own_resource("b" * 16)))
    assert compare(Side(mine, "a"), Side(job(2).evolve(spec=spec()), "b")).same


def test_packages_have_versions_or_addresses() -> None:
    told = facts.packages("A_b==1\nmine @ git+https://host/r@v==1\n\n-e .\n")
    assert told == {"a-b": "1", "mine": "git+https://host/r@v==1", "-e .": ""}


def test_what_an_image_stood_for_is_code() -> None:
    a, b = (
        seen(n, code=f"sha256:{n}").evolve(spec=spec(executable=Image(image="x"))) for n in (1, 2)
    )
    found = [(d.section, d.name) for d in compare(Side(a, "a"), Side(b, "b")).unequal()]
    assert found == [("code", "image as it ran")]


def test_jobs_are_paired_by_lineage_else_by_place() -> None:
    first, second, third = job(1), job(2), job(3)
    other = job(5).evolve(unit=1, cloned_from=second.id)
    assert pair([first], [other]).pairs == [(first, other)]
    paired = pair([first, second, third], [other])
    assert (paired.pairs, paired.only_a, paired.only_b) == ([(second, other)], [first, third], [])
    back = pair([other, job(6)], [first, second])
    assert back.pairs == [(other, second)]
    stranger = job(7).evolve(unit=2)
    paired = pair([first, second], [stranger, job(8)])
    assert (paired.pairs, paired.only_a) == ([(second, stranger)], [first])
    assert paired.only_b == [job(8)]


def test_jobs_of_a_group_are_paired_by_their_place_in_it() -> None:
    def group(*units: int) -> list[Job]:
        members = [Member(id=job(unit).id, name=f"j{unit}") for unit in units]
        return [job(unit).evolve(unit=1, name=f"j{unit}", group=members) for unit in units]

    a, b = group(1, 2), group(3, 4)
    assert pair(a, b[::-1]).pairs == [(a[0], b[0]), (a[1], b[1])]


def test_a_run_that_goes_on_is_expected_to_complete() -> None:
    failed = job(2, JobState.FAILED)
    told = reproduction(Side(job(1, JobState.RUNNING), "a"), Side(failed, "b"))
    assert [(d.section, d.name) for d in told.unequal()] == [("outcome", "state")]
    assert "how it ends: a is running" in told.unknown


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("numpy==1", True),
        ("Numpy == 1  # ours", True),
        ("numpy==1; python_version > '3'", True),
        ("numpy==1 \\\n --hash=sha256:0", True),
        ("numpy==2", False),
        ("other==1", False),
    ],
)
def test_pinned_requirements_are_looked_for_among_what_was_installed(line: str, same: bool) -> None:
    code = PythonSource(archive="0" * 64, entrypoint=("x",), requirements=f"{line}\nscipy>1\n")
    ran = seen(2, code=f"sha256:{'0' * 64}")
    before = job(1, JobState.COMPLETED).evolve(spec=spec(executable=code))
    told = reproduction(Side(before, "a"), Side(ran, "b", "numpy==1\nscipy==2\n"))
    assert (told.unequal() == []) is same
    assert "versions that the requirements leave open: scipy" in told.unknown


def test_the_files_of_patches_that_differ() -> None:
    a = of_patch(b"diff --git a/x b/x\n+1\ndiff --git a/y b/y\n+1\n")
    b = of_patch(b"diff --git a/x b/x\n+2\ndiff --git a/y b/y\n+1\ndiff --git a/z b/z\n\0")
    assert changed(a, b) == ["x", "z"]
    assert list(unified(a, b, ("one", "two")))[-3:] == [
        "-+1",
        "++2",
        "Binary files one/z and two/z differ",
    ]
    assert changed(of_patch(None), a) == ["x", "y"]
