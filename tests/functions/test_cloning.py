"""Copies of experiments and jobs, with some things changed."""

import hashlib
from typing import Any

import pytest

from tests.functions.api import Api, new_job
from tests.functions.states import QUEUED
from xmcloud.core.models import Auxiliary, Experiment, Job
from xmcloud.core.protocol import ExperimentStatus, Jobs, NewJob, NewUnit, NewUnits
from xmcloud.core.runs import own_resource
from xmcloud.core.specs import Binary, Command, GitSource, Image, PythonSource

OLD, NEW = "a" * 40, "b" * 40
TREE = "0123456789abcdef" * 4
OWN = b"diff --git a/.xmcloud-local/mine.py b/.xmcloud-local/mine.py\n+code\n"
EDIT = b"diff --git a/train.py b/train.py\n+edited\n"
SCRIPT = b"diff --git a/sub/note.ipynb.py b/sub/note.ipynb.py\n+cell\n"


def git(**fields: Any) -> GitSource:
    base = {"repository": "https://example.com/r", "commit": OLD, "entrypoint": ("python", "t.py")}
    return GitSource.model_validate({**base, **fields})


def python(requirements: str = "numpy==1\n") -> PythonSource:
    return PythonSource(archive=TREE, entrypoint=("python",), requirements=requirements)


async def blob(api: Api, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    headers = {"Content-Type": "application/octet-stream"}
    await api.call("PUT", f"/blobs/{digest}", None, 201, content=data, headers=headers)
    return digest


async def of(api: Api, job: Job) -> Experiment:
    """Its experiment."""
    path = f"/experiments/{job.experiment_id}"
    return (await api.get(ExperimentStatus, path)).experiment


async def cloned(api: Api, original: Job, **changes: Any) -> list[Job]:
    """The jobs of the copy of its experiment, in order."""
    path = f"/experiments/{original.experiment_id}/clone"
    copy = await api.post(Experiment, path, changes, 201)
    jobs = (await api.get(Jobs, f"/experiments/{copy.id}/jobs")).jobs
    return sorted(jobs, key=lambda job: (job.unit, job.members.index(job.id)))


async def test_another_commit_comes_without_what_was_not_committed(api: Api) -> None:
    diff = await blob(api, EDIT)
    source = git(diff=diff, bundle=TREE, branch="main", requirements="numpy==1\n")
    original = await api.job(executable=source)
    (copy,) = await cloned(api, original, commit=NEW)
    assert copy.spec.executable == git(commit=NEW, requirements="numpy==1\n")
    (copy,) = await cloned(api, original, commit=OLD)
    assert copy.spec.executable == source.evolve(diff=None)
    (copy,) = await cloned(api, original)
    assert copy.spec.executable == source


async def test_another_commit_keeps_what_no_commit_has(api: Api) -> None:
    """Code that was carried from outside of the repository, and the script of a notebook."""
    diff = await blob(api, EDIT + SCRIPT + OWN)
    notebook = git(diff=diff, directory="sub", entrypoint=("python", "note.ipynb.py"))
    first = await api.job(executable=git(diff=diff))
    await api.jobs(await of(api, first), new_job(executable=notebook))
    one, two = (job.spec.executable for job in await cloned(api, first, commit=NEW))
    for source, kept in ((one, OWN), (two, SCRIPT + OWN)):
        assert isinstance(source, GitSource)
        assert (await api.call("GET", f"/blobs/{source.diff}")).content == kept
        assert source.commit == NEW


async def test_requirements_change_as_a_whole_or_a_package_at_a_time(api: Api) -> None:
    original = await api.job(executable=python("numpy==1\nscipy\n"))
    await api.jobs(await of(api, original), new_job(executable=git(requirements="jax")))

    async def lists(**changes: Any) -> list[str]:
        copies = [job.spec.executable for job in await cloned(api, original, **changes)]
        return [each.requirements for each in copies if isinstance(each, PythonSource | GitSource)]

    assert await lists(packages=["numpy==2"]) == ["numpy==2\nscipy\n", "jax\nnumpy==2\n"]
    assert await lists(requirements="a\n") == ["a\n", "a\n"]
    assert await lists(requirements="", packages=["b==1"]) == ["b==1\n", "b==1\n"]


async def test_another_image(api: Api) -> None:
    original = await api.job(executable=Image(image="old", command=("run",)))
    (copy,) = await cloned(api, original, image="new@sha256:00")
    assert copy.spec.executable == Image(image="new@sha256:00", command=("run",))


async def test_an_image_in_place_of_code_and_commands(api: Api) -> None:
    """One that `xmcloud build job` made starts what the job started."""
    first = await api.job(executable=git(requirements="a"))
    await api.jobs(
        await of(api, first),
        new_job(executable=python("numpy")),
        new_job(executable=Command(command=("train", "--fast"), directory="/here")),
    )
    assert [job.spec.executable for job in await cloned(api, first, image="new")] == [
        Image(image="new"),
        Image(image="new"),
        Image(image="new", command=("train", "--fast")),
    ]


async def test_no_image_stands_for_a_packed_binary(api: Api) -> None:
    job = await api.job(executable=Binary(file="a" * 64, name="program"))
    found = await api.refused("POST", f"/jobs/{job.id}/clone", 422, {"image": "x"})
    assert found.field == "image"


async def test_a_change_is_made_where_it_fits(api: Api) -> None:
    rate = [{"name": "lr", "value": 0.1}]
    first = await api.job(executable=git(requirements="a"), arguments=rate)
    other = new_job(executable=Image(image="old"))
    await api.jobs(await of(api, first), other)
    one, two = await cloned(api, first, commit=NEW, image="new", arguments={"lr": 1.0})
    assert one.spec.executable == git(commit=NEW, requirements="a")
    assert repr(one.spec.arguments[0].value) == "1.0"
    assert two.spec == other.spec.evolve(executable=Image(image="new"))


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"commit": NEW}, "commit", "no job of it runs a revision of a git repository"),
        ({"requirements": "x"}, "requirements", "only that has requirements"),
        ({"packages": ["x"]}, "packages", "only that has requirements"),
        ({"arguments": {"lr": 1}}, "arguments", "its arguments are positional"),
    ],
)
async def test_a_change_that_fits_no_job_is_refused(
    api: Api, changes: dict[str, Any], field: str, remedy: str
) -> None:
    job = await api.job()
    found = await api.refused("POST", f"/jobs/{job.id}/clone", 422, changes)
    assert found.field == field
    assert remedy in found.remedy


async def test_one_package_is_no_list(api: Api) -> None:
    job = await api.job(executable=python(""))
    found = await api.refused("POST", f"/jobs/{job.id}/clone", 422, {"packages": ["numpy==2"]})
    assert "the whole list as `requirements`" in found.remedy


@pytest.mark.parametrize(
    "changes",
    [{"commit": "main"}, {"packages": ["numpy=2"]}, {"packages": ["-r x"]}, {"queue": "A b"}],
)
async def test_what_is_malformed_is_refused(api: Api, changes: dict[str, Any]) -> None:
    job = await api.job(executable=git(requirements="a"))
    await api.refused("POST", f"/jobs/{job.id}/clone", 422, changes)


async def test_a_copy_waits_in_a_queue_as_soon_as_it_is_there(api: Api) -> None:
    original = await api.job(arguments=[{"name": "lr", "value": 0.1}])
    (copy,) = await cloned(api, original, queue="high")
    assert (copy.state, copy.queue, copy.cloned_from) == (QUEUED, "high", original.id)
    session = await api.session(queues=("high",))
    assert [job.id for job in await api.claimed(session, "high")] == [copy.id]
    await api.refused("POST", f"/jobs/{original.id}/clone", 404, {"queue": "nowhere"})


async def test_a_group_is_copied_whole_into_a_queue(api: Api) -> None:
    experiment = await api.experiment()
    jobs = (new_job("chief", arguments=[{"name": "lr", "value": 1}]), new_job("worker"))
    body = NewUnits(units=(NewUnit(jobs=jobs),))
    chief, _ = (await api.post(Jobs, f"/experiments/{experiment.id}/units", body, 201)).jobs
    copies = await cloned(api, chief, arguments={"lr": 2}, queue="low")
    assert [(job.name, job.state, job.queue) for job in copies] == [
        ("chief", QUEUED, "low"),
        ("worker", QUEUED, "low"),
    ]
    assert [member.id for member in copies[0].group] == [job.id for job in copies]
    assert copies[0].spec.arguments[0].value == 2


async def test_the_lineage_of_a_copy_of_a_copy(api: Api) -> None:
    first = await api.job()
    (second,) = await cloned(api, first)
    (third,) = await cloned(api, second)
    assert (second.cloned_from, third.cloned_from) == (first.id, second.id)
    about = await of(api, third)
    assert about.cloned_from == second.experiment_id


async def test_a_run_of_a_process_is_copied_as_one_for_any_worker(api: Api) -> None:
    mine = own_resource("b" * 16)
    original = await api.job(queue=None, pool="runs", resources={mine: 1, "cpu": 2})
    (copy,) = await cloned(api, original, queue="default")
    assert (copy.spec.pool, copy.spec.resources, copy.state) == ("", {"cpu": 2}, QUEUED)


async def test_the_end_of_the_other_units_is_not_copied(api: Api) -> None:
    experiment = await api.experiment()
    helper = NewJob(name="board", spec=new_job().spec, queue=None)
    ends = Auxiliary(termination_delay_seconds=60, ends_at=api.clock.now())
    units = (NewUnit(jobs=(helper,), auxiliary=ends), NewUnit(jobs=(new_job(),)))
    path = f"/experiments/{experiment.id}/units"
    board, _ = (await api.post(Jobs, path, NewUnits(units=units), 201)).jobs
    copy, _ = await cloned(api, board)
    assert copy.auxiliary == ends.evolve(ends_at=None)


async def test_types_survive(api: Api) -> None:
    values: list[Any] = [False, None, [None], 1.0, "1", 1, True, {"a": [1.0]}, ""]
    flags = [{"name": f"f{number}", "value": "old"} for number in range(len(values))]
    original = await api.job(arguments=flags, executable=Command(command=("x",)))
    (copy,) = await cloned(
        api, original, arguments={f"f{number}": value for number, value in enumerate(values)}
    )
    assert repr([argument.value for argument in copy.spec.arguments]) == repr(values)
