"""Experiments of launch scripts, against a real control plane."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.functions.xm_cloud.server import End, Worker
from xmcloud import xm, xm_cloud, xm_local
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job, JobState
from xmcloud.xm_cloud.client import Client


def value(job: Job) -> JsonValue:
    return job.spec.arguments[0].value


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def local(experiment: xm.Experiment, program: str) -> xm.Job:
    [executable] = experiment.package([xm.binary(xm_local.Local.Spec(), program)])
    return xm.Job(executable, xm_local.Local())


def pooled(experiment: xm.Experiment, program: str) -> xm.Job:
    [executable] = experiment.package([xm.binary(xm_cloud.WorkerPool.Spec(), program)])
    return xm.Job(executable, xm_cloud.WorkerPool(pool="lab"))


def states(client: Client, experiment: str) -> list[JobState]:
    return [job.state for job in client.jobs_of(experiment)]


def test_leaving_waits_for_local_jobs_and_shows_how_they_went(
    url: str, client: Client, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def behave(job: Job) -> End:
        return End(results={"loss": value(job)}, output=f"training\rtrained {value(job)}\nbye")

    with Worker(url, behave), xm_local.create_experiment("sweep", tags=["t"]) as experiment:
        job = local(experiment, program)
        for rate in (0.5, 0.25, 0.125):
            experiment.add(job, {"args": {"rate": rate}})
    assert states(client, experiment.experiment_id) == [JobState.COMPLETED] * 3
    shown = capsys.readouterr().err
    for unit, rate in enumerate((0.5, 0.25, 0.125), 1):
        assert f"[{unit}] trained {rate}\n[{unit}] bye\n" in shown
        assert f"\n{unit}     rate={rate}" in shown
    assert "unit  parameters  loss" in shown
    assert shown.endswith("3 completed\n")


def test_units_are_numbered_in_the_order_of_adding(url: str, client: Client, program: str) -> None:
    with xm_local.create_experiment("many") as experiment:
        job = pooled(experiment, program)
        for number in range(500):
            experiment.add(job, {"args": {"number": number}})
    jobs = list(client.jobs_of(experiment.experiment_id))
    assert [(job.unit, value(job)) for job in jobs] == [(n + 1, n) for n in range(500)]


def test_leaving_does_not_wait_for_other_jobs(url: str, client: Client, program: str) -> None:
    with xm_local.create_experiment("pool") as experiment:
        experiment.add(pooled(experiment, program))
    assert states(client, experiment.experiment_id) == [JobState.QUEUED]


def test_a_failing_local_job_is_raised_once_all_have_ended(
    url: str, client: Client, program: str
) -> None:
    def behave(job: Job) -> End:
        return End("failed", "exit code 3") if value(job) == 2 else End()

    made: list[str] = []

    def run() -> None:
        with xm_local.create_experiment("fails") as experiment:
            made.append(experiment.experiment_id)
            job = local(experiment, program)
            for number in (1, 2, 3):
                experiment.add(job, {"args": {"n": number}})

    with Worker(url, behave), pytest.raises(xm.ExperimentUnitFailedError, match="exit code 3") as e:
        run()
    assert isinstance(e.value.work_unit, xm.WorkUnit)
    assert e.value.work_unit.work_unit_id == 2
    assert states(client, made[0]) == [JobState.COMPLETED, JobState.FAILED, JobState.COMPLETED]


def test_a_script_that_raises_is_not_held_up(url: str, client: Client, program: str) -> None:
    made: list[str] = []

    def run() -> None:
        with xm_local.create_experiment("raises") as experiment:
            made.append(experiment.experiment_id)
            experiment.add(local(experiment, program))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert states(client, made[0]) == [JobState.QUEUED]


def test_an_experiment_without_units_warns(url: str) -> None:
    with (
        pytest.warns(UserWarning, match="'empty' has no work unit"),
        xm_local.create_experiment("empty"),
    ):
        pass


def test_siblings_of_a_job_that_is_refused_are_launched(
    url: str, client: Client, program: str
) -> None:
    made: list[str] = []

    def run() -> None:
        with xm_local.create_experiment("siblings") as experiment:
            made.append(experiment.experiment_id)
            [packaged] = experiment.package([xm.binary(xm_cloud.WorkerPool.Spec(), program)])
            for queue in ("default", "nowhere", "default"):
                experiment.add(xm.Job(packaged, xm_cloud.WorkerPool(queue=queue)))

    with pytest.raises(NotFound, match="nowhere"):
        run()
    assert states(client, made[0]) == [JobState.QUEUED] * 2


def test_an_asynchronous_script(url: str, program: str) -> None:
    async def script() -> tuple[list[int], list[xm.ExperimentUnitStatus]]:
        async with xm_local.create_experiment("async") as experiment:
            job = pooled(experiment, program)
            units = await asyncio.gather(*(experiment.add(job) for _ in range(3)))
            for unit in units:
                assert await unit.wait_until_complete() is unit
                await unit.wait_for_completion()
        return [unit.work_unit_id for unit in units], [unit.get_status() for unit in units]

    with Worker(url, lambda job: End(message="fine"), pool="lab"):
        ids, statuses = asyncio.run(script())
    assert ids == [1, 2, 3]
    assert {(status.is_completed, status.message) for status in statuses} == {(True, "fine")}


def test_waiting_raises_for_what_did_not_complete(url: str, program: str) -> None:
    async def script() -> None:
        async with xm_local.create_experiment("stops") as experiment:
            job = pooled(experiment, program)
            stopped, failed, completed = [await experiment.add(job) for _ in range(3)]
            assert stopped.get_status().is_active
            stopped.stop(message="enough")
            failed.stop(mark_as_failed=True)
            completed.stop(mark_as_completed=True)
            with pytest.raises(xm.ExperimentUnitNotCompletedError, match="enough") as raised:
                await stopped.wait_until_complete()
            assert raised.value.work_unit is stopped
            with pytest.raises(xm.ExperimentUnitFailedError):
                await failed.wait_until_complete()
            await completed.wait_until_complete()
            stopped.stop()
            assert not stopped.get_status().is_active
            with pytest.raises(ValueError, match="exclude each other"):
                stopped.stop(mark_as_failed=True, mark_as_completed=True)

    asyncio.run(script())


def test_with_inside_a_running_loop_is_refused(url: str) -> None:
    async def script() -> None:
        with pytest.raises(RuntimeError, match="async with"), xm_local.create_experiment("sync"):
            pass

    asyncio.run(script())


def test_generators_add_their_jobs_in_order(url: str, client: Client, program: str) -> None:
    with xm_local.create_experiment("generators") as experiment:
        job = pooled(experiment, program)

        async def generator(work_unit: xm.WorkUnit, number: int) -> None:
            name = work_unit.get_full_job_name("job")
            await work_unit.add(job, {"args": [number, work_unit.work_unit_id, name]})

        def plain(work_unit: xm.WorkUnit) -> None:
            work_unit.add(job, {"args": ["plain"]})

        for number in range(5):
            experiment.add(generator, {"number": number})
        experiment.add(plain)
        experiment.add(job, {"args": ["job"]})
    id = experiment.experiment_id
    sent = [[a.value for a in job.spec.arguments] for job in client.jobs_of(id)]
    assert sent == [[n, n + 1, f"{id}_{n + 1}_job"] for n in range(5)] + [["plain"], ["job"]]


def test_generators_in_an_asynchronous_script(url: str, client: Client, program: str) -> None:
    async def script() -> str:
        async with xm_local.create_experiment("generators") as experiment:
            job = pooled(experiment, program)
            loop = asyncio.get_running_loop()

            async def generator(work_unit: xm.WorkUnit) -> None:
                assert asyncio.get_running_loop() is loop
                await work_unit.add(job)

            unit = await experiment.add(generator)
            assert isinstance(unit, xm.WorkUnit)
            experiment.add(generator)
        return experiment.experiment_id

    assert states(client, asyncio.run(script())) == [JobState.QUEUED] * 2


def test_a_generator_that_fails_is_raised_and_holds_nobody_up(
    url: str, client: Client, program: str
) -> None:
    async def generator(work_unit: xm.WorkUnit) -> None:
        raise ZeroDivisionError

    made: list[str] = []

    def run() -> None:
        with xm_local.create_experiment("fails") as experiment:
            made.append(experiment.experiment_id)
            experiment.add(generator)
            experiment.add(pooled(experiment, program))

    with pytest.raises(ZeroDivisionError):
        run()
    assert states(client, made[0]) == [JobState.QUEUED]


def test_a_failure_that_was_awaited_is_not_raised_again(url: str, program: str) -> None:
    async def script() -> None:
        async with xm_local.create_experiment("heard") as experiment:
            [packaged] = experiment.package([xm.binary(xm_cloud.WorkerPool.Spec(), program)])
            with pytest.raises(NotFound):
                await experiment.add(xm.Job(packaged, xm_cloud.WorkerPool(queue="nowhere")))

    asyncio.run(script())


def test_an_identity_adds_once(url: str, client: Client, program: str) -> None:
    with xm_local.create_experiment("identity") as experiment:
        job = pooled(experiment, program)
        first = experiment.add(job, {"args": {"a": 1}}, identity="one").result()
        assert experiment.add(job, {"args": {"a": 1}}, identity="one").result() is first
        experiment.add(job, identity="two")
        assert first.identity == "one"
    again = xm_local.get_experiment(experiment.experiment_id)
    same = again.add(job, {"args": {"a": 1}}, identity="one").result()
    assert same.work_unit_id == first.work_unit_id == 1
    other = xm_local.get_experiment(experiment.experiment_id)
    there = other.add(job, {"args": {"a": 2}}, identity="one").result()
    assert there.work_unit_id == 1
    assert len(states(client, experiment.experiment_id)) == 2


def test_experiments_are_found_again(url: str, program: str) -> None:
    options = {"creator": "ada", "notes": "why"}
    with xm_local.create_experiment("found", tags=["a", "b"], **options) as experiment:
        experiment.add(pooled(experiment, program))
    found = xm_local.get_experiment(experiment.experiment_id[:6])
    about = found.context.annotations
    assert found.experiment_id == experiment.experiment_id
    assert (found.context.creator, about.title, about.notes) == ("ada", "found", "why")
    assert about.tags == {"a", "b"}
    assert found.work_unit_count == 1
    assert found.work_units[1].get_status().is_active
    assert [each.experiment_id for each in xm_local.list_experiments()] == [found.experiment_id]


def test_what_people_say_about_an_experiment_changes(url: str, program: str) -> None:
    with xm_local.create_experiment("before", tags=["a", "b"]) as experiment:
        experiment.add(pooled(experiment, program))
        about = experiment.context.annotations
        about.set_title("after")
        about.add_tags("c", "a")
        about.remove_tags("b")
        about.set_notes("why")
    for seen in (about, xm_local.get_experiment(experiment.experiment_id).context.annotations):
        assert (seen.title, seen.notes) == ("after", "why")
        assert seen.tags == {"a", "c"}


def test_a_missing_experiment_is_a_key_error_and_a_value_error(url: str) -> None:
    for kind in (KeyError, ValueError):
        with pytest.raises(kind, match="experiment"):
            xm_local.get_experiment("zzzz")


def test_packages_keep_their_order_and_go_along_with_the_next(
    url: str, client: Client, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
        (folder / "main.py").write_text(folder.name)

    def packageable(folder: Path) -> xm.Packageable:
        return xm.python_container(xm_local.Local.Spec(), xm.ModuleName("main"), str(folder))

    async def script() -> Sequence[str]:
        async with xm_local.create_experiment("packages") as experiment:
            later = experiment.package_async(packageable(folders[2]))
            executables = experiment.package([packageable(folder) for folder in folders[:2]])
            experiment.add(xm.Job(executables[0], xm_local.Local()))
            (await experiment.add(xm.Job(await later, xm_local.Local()))).stop()
            (await experiment.add(xm.Job(executables[1], xm_local.Local()))).stop()
        return [executable.name for executable in (*executables, await later)]

    with Worker(url, lambda job: End()):
        assert asyncio.run(script()) == ["one", "two", "three"]
