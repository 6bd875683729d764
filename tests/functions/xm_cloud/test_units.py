"""Units of launch scripts, groups and helpers among them, against a real control plane."""

import asyncio
import inspect
import logging
from collections.abc import Callable

import pytest

from tests.functions.xm_cloud.server import End, Worker
from xmcloud import xm, xm_cloud, xm_local
from xmcloud.core.builds import BuildSpec
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import NewBuild
from xmcloud.core.specs import Image
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.packaging.package import Packaged

MakeJob = Callable[..., xm.Job]
IMAGE = Image(image="registry.example.org/i@sha256:0")


@pytest.fixture
def job() -> MakeJob:
    """Makes a job that needs no packaging."""

    def make(executor: xm.Executor | None = None, name: str = "", image: Image = IMAGE) -> xm.Job:
        executor = executor or xm_cloud.WorkerPool(pool="lab")
        return xm.Job(
            Packaged("i", executable=image, executor_spec=executor.Spec()), executor, name
        )

    return make


def by_name(client: Client, experiment: xm.Experiment) -> dict[str, Job]:
    return {job.name: job for job in client.jobs_of(experiment.experiment_id)}


def test_a_group_is_one_unit_that_completes_whole(url: str, client: Client, job: MakeJob) -> None:
    async def script() -> xm.Experiment:
        async with xm_local.create_experiment("group") as experiment:
            group = xm.JobGroup(a=job(), inner=xm.JobGroup(b=job()))
            unit = await experiment.add(group, {"inner": {"b": {"args": {"x": 1}}}})
            assert await unit.wait_until_complete() is unit
            status = unit.get_status()
            assert (status.is_completed, status.message) == (True, "fine")
            assert [each.name for each in unit.launched_jobs] == [
                unit.get_full_job_name("a"),
                unit.get_full_job_name("inner_b"),
            ]
            assert (await experiment.add(job())).work_unit_id == 2
        return experiment

    with Worker(url, lambda job: End(message="fine"), pool="lab"):
        made = by_name(client, asyncio.run(script()))
    assert [job.unit for job in made.values()] == [1, 1, 2]
    assert [member.name for member in made["a"].group] == ["a", "inner_b"]
    assert made["inner_b"].spec.arguments[0].value == 1


def test_a_group_fails_with_the_message_of_the_first_cause(url: str, job: MakeJob) -> None:
    def behave(job: Job) -> End | None:
        return End("failed", "exit code 3") if job.name == "b" else None

    async def script() -> None:
        async with xm_local.create_experiment("fails") as experiment:
            unit = await experiment.add(xm.JobGroup(a=job(), b=job(), c=job()))
            waiting = unit.wait_until_complete()
            assert waiting.work_unit is unit
            with pytest.raises(xm.ExperimentUnitFailedError, match="b: exit code 3") as raised:
                await waiting
            assert raised.value.work_unit is unit
            assert unit.get_status() == xm.ExperimentUnitStatus(
                xm.UnitState.FAILED, "b: exit code 3"
            )

    with Worker(url, behave, pool="lab"):
        asyncio.run(script())


def test_a_group_is_stopped_whole(url: str, client: Client, job: MakeJob) -> None:
    async def script() -> None:
        async with xm_local.create_experiment("stops") as experiment:
            unit = await experiment.add(xm.JobGroup(a=job(), b=job()))
            assert unit.get_status().is_active
            unit.stop(message="enough")
            with pytest.raises(xm.ExperimentUnitNotCompletedError, match="enough"):
                await unit.wait_until_complete()
            unit.stop()
            states = {job.state for job in client.jobs_of(experiment.experiment_id)}
            assert states == {JobState.STOPPED}

    asyncio.run(script())


@pytest.mark.parametrize(
    "executor",
    [
        xm_local.Local(),
        xm_local.WorkerPool(),
        xm_local.Vertex(xm.JobRequirements(t4=1)),
        xm_local.Kubernetes(xm.JobRequirements(t4=1)),
        xm_local.Overflow(),
        xm_local.Overflow(xm.JobRequirements(replicas=2)),
    ],
)
def test_units_of_every_executor_are_asked_and_stopped(
    url: str, job: MakeJob, executor: xm.Executor
) -> None:
    async def script() -> None:
        async with xm_local.create_experiment("any") as experiment:
            unit = await experiment.add(job(executor))
            assert unit.get_status().is_active
            unit.stop(mark_as_completed=True)
            await unit.wait_until_complete()
            assert unit.get_status().is_completed

    asyncio.run(script())


def test_what_waits_for_a_unit_is_a_coroutine(url: str, job: MakeJob) -> None:
    async def script() -> list[int]:
        async with xm_local.create_experiment("awaitable") as experiment:
            units = [await experiment.add(job()) for _ in range(3)]
            waiting = [unit.wait_until_complete() for unit in units]
            assert all(isinstance(each, xm_local.WorkUnitCompletedAwaitable) for each in waiting)
            waiting.pop().close()
            tasks = [asyncio.create_task(each) for each in waiting]
            assert not inspect.iscoroutinefunction(units[0].wait_until_complete)
            return [task.work_unit_id for task in await asyncio.gather(*tasks)]

    with Worker(url, lambda job: End(), pool="lab"):
        assert asyncio.run(script()) == [1, 2]


def test_waiting_for_a_unit_that_was_refused(url: str, job: MakeJob) -> None:
    async def script() -> None:
        async with xm_local.create_experiment("refused") as experiment:
            pending = experiment.add(job(xm_local.WorkerPool(queue="nowhere")))
            with pytest.raises(NotFound):
                await pending
            made: list[xm.WorkUnit] = []

            async def generator(work_unit: xm.WorkUnit) -> None:
                made.append(work_unit)
                await work_unit.add(job(xm_local.WorkerPool(queue="nowhere")))

            with pytest.raises(NotFound):
                await experiment.add(generator)
            with pytest.raises(xm.ExperimentUnitError, match=r"not launched.*nowhere") as raised:
                await made[0].wait_until_complete()
            assert raised.value.work_unit is made[0]

    asyncio.run(script())


def test_a_failing_local_group_is_raised(url: str, client: Client, job: MakeJob) -> None:
    def behave(job: Job) -> End | None:
        return End("failed", "exit code 3") if job.name == "w_1" else None

    def run() -> None:
        with xm_local.create_experiment("local") as experiment:
            executor = xm_local.Local(xm.JobRequirements(replicas=2))
            experiment.add(job(executor, "w"))

    with Worker(url, behave), pytest.raises(xm.ExperimentUnitFailedError, match="w_1: exit code 3"):
        run()


def test_output_of_groups_names_the_job(
    url: str, job: MakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = xm_local.Local(experimental_stream_output=False)
    behave = Worker(url, lambda job: End(output=f"I am {job.name}"))
    with behave, xm_local.create_experiment("shown") as experiment:
        experiment.add(xm.JobGroup(a=job(xm_local.Local()), b=job(silent)))
    shown = capsys.readouterr().err
    assert "[1 a] I am a\n" in shown
    assert "[1 b] completed" in shown
    assert "I am b" not in shown


def test_auxiliary_units_are_no_work_units(url: str, client: Client, job: MakeJob) -> None:
    async def script() -> str:
        async with xm_local.create_experiment("aux") as experiment:
            board = xm.AuxiliaryUnitJob(job(name="board"), termination_delay_secs=60)
            helper = await experiment.add(board, {"args": {"port": 6006}})
            assert isinstance(helper, xm.AuxiliaryUnit)
            assert helper.auxiliary_unit_id == 1

            async def generator(aux_unit: xm.ExperimentUnit, port: int) -> None:
                aux_unit.add(job(name="by generator"), {"args": [port]})

            role = xm.AuxiliaryUnitRole(termination_delay_secs=5)
            other = await experiment.add(generator, {"port": 1}, role=role)
            assert isinstance(other, xm.AuxiliaryUnit)
            unit = await experiment.add(job(name="work"))
            assert isinstance(unit, xm.WorkUnit)
            assert list(experiment.work_units) == [unit.work_unit_id]
            assert experiment.work_unit_count == 1
            assert helper.get_status().is_active
        return experiment.experiment_id

    id = asyncio.run(script())
    assert list(xm_local.get_experiment(id).work_units) == [3]
    made = {job.name: job.auxiliary for job in client.jobs_of(id)}
    delays = {name: aux and aux.termination_delay_seconds for name, aux in made.items()}
    assert delays == {"board": 60, "by generator": 5, "work": None}


def test_an_experiment_of_helpers_only_warns_and_does_not_wait(url: str, job: MakeJob) -> None:
    def run() -> None:
        with xm_local.create_experiment("helpers") as experiment:
            local = job(xm_local.Local())
            experiment.add(xm.AuxiliaryUnitJob(local, termination_delay_secs=60))

    with pytest.warns(UserWarning, match="'helpers' has no work unit"):
        run()


def test_a_build_that_fails_is_raised_with_its_step_and_last_lines(
    url: str, client: Client, job: MakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    build = client.create_build(NewBuild(spec=BuildSpec(archive="0" * 64, name="i")))
    unbuilt = Image(build=build.id)
    units: list[xm.WorkUnit] = []

    def run() -> None:
        with xm_local.create_experiment("unbuilt") as experiment:
            vertex = xm_local.Vertex()
            group = xm.JobGroup(a=job(vertex, image=unbuilt), b=job(vertex))
            units.append(experiment.add(group).result())
            experiment.add(job(xm_local.Vertex()))

    message = r"a: build .*step 2/3 RUN pip: exit code 1\nno such package"
    with pytest.raises(xm.ExperimentUnitFailedError, match=message) as raised:
        run()
    assert raised.value.work_unit is units[0]
    assert "xmcloud: image i: failed" in capsys.readouterr().err
    assert units[0].get_status().is_failed


def test_a_generator_adds_one_group(url: str, client: Client, job: MakeJob) -> None:
    async def inner(work_unit: xm.WorkUnit, port: int) -> None:
        server = work_unit.get_full_job_name("server")
        args = {"client": {"args": {"server": f"{server}:{port}"}}}
        work_unit.add(xm.JobGroup(client=job(), server=job()), args)

    async def outer(work_unit: xm.WorkUnit) -> None:
        work_unit.add(inner, {"port": 80})

    async def twice(work_unit: xm.WorkUnit) -> None:
        work_unit.add(job())
        with pytest.raises(xm_cloud.Unsupported, match=r"one xm\.JobGroup"):
            work_unit.add(job())

    with xm_local.create_experiment("generators") as experiment:
        experiment.add(outer)
        experiment.add(twice)
    made = by_name(client, experiment)
    assert made["client"].spec.arguments[0].value == f"{made['server'].full_name}:80"
    assert made["client"].members == made["server"].members
    assert made["i"].unit == 2


def test_an_identity_adds_a_group_once(url: str, client: Client, job: MakeJob) -> None:
    group = xm.JobGroup(a=job(), b=job())
    with xm_local.create_experiment("identity") as experiment:
        experiment.add(group, identity="one")
    again = xm_local.get_experiment(experiment.experiment_id)
    other = xm.JobGroup(a=job(), b=job(), c=job())
    unit = again.add(other, identity="one").result()
    assert unit.work_unit_id == 1
    assert [each.name for each in unit.launched_jobs] == [
        unit.get_full_job_name(name) for name in "ab"
    ]
    assert unit.get_status().is_active
    assert set(by_name(client, experiment)) == {"a", "b"}


def test_a_script_that_logs_does_not_log_our_requests(
    url: str, job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with xm_local.create_experiment("logs") as experiment:
        experiment.add(job())
    of_the_server = ("xmcloud.requests", "xmcloud.jobs")
    assert [each for each in caplog.records if each.name not in of_the_server] == []


def test_many_groups_are_sent_within_the_limits_of_a_request(
    url: str, client: Client, job: MakeJob
) -> None:
    with xm_local.create_experiment("many") as experiment:
        replicated = job(xm_local.WorkerPool(xm.JobRequirements(replicas=60)), "w")
        for _ in range(9):
            experiment.add(replicated)
    counts = [job.unit for job in client.jobs_of(experiment.experiment_id)]
    assert counts == [unit for unit in range(1, 10) for _ in range(60)]
