"""Searches of launch scripts, against a real control plane."""

from pathlib import Path

import pytest

from tests.functions.xm_cloud.server import End, Worker
from xmcloud import xm, xm_cloud, xm_local
from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.models import Job
from xmcloud.core.specs import Image
from xmcloud.xm_cloud import vizier as vizier_cloud
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.packaging.package import Packaged
from xmcloud.xm_cloud.vizier import StudySpec

PARALLEL, TOTAL = 2, 5


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_HOME", str(tmp_path / "home"))


def spec(algorithm: int = StudySpec.Algorithm.RANDOM_SEARCH) -> StudySpec:
    parameter = StudySpec.ParameterSpec
    return StudySpec(
        algorithm=algorithm,
        parameters=[
            parameter(
                parameter_id="n",
                integer_value_spec=parameter.IntegerValueSpec(min_value=0, max_value=2),
            ),
            parameter(
                parameter_id="c",
                categorical_value_spec=parameter.CategoricalValueSpec(values=["a", "b"]),
            ),
        ],
        metrics=[
            StudySpec.MetricSpec(metric_id="loss", goal=StudySpec.MetricSpec.GoalType.MINIMIZE)
        ],
    )


def searched(job: Job) -> dict[str, object]:
    return {str(argument.name): argument.value for argument in job.spec.arguments}


def loss(job: Job) -> End:
    n = searched(job)["n"]
    assert isinstance(n, int)
    return End(results={"loss": (n - 1) ** 2})


def trial() -> xm.Job:
    executor = xm_cloud.WorkerPool(pool="lab")
    image = Image(image="registry.example.org/i@sha256:0")
    return xm.Job(Packaged("i", executable=image, executor_spec=executor.Spec()), executor)


def explore(
    experiment: xm_cloud.Experiment,
    study: vizier_cloud.StudyFactory,
    total: int,
    job: xm.JobType | None = None,
) -> vizier_cloud.VizierExploration:
    exploration = vizier_cloud.VizierExploration(
        experiment=experiment,
        job=job or trial(),
        study_factory=study,
        num_trials_total=total,
        num_parallel_trial_runs=PARALLEL,
    )
    exploration.launch()
    return exploration


def test_each_trial_is_a_unit_with_its_parameters_and_its_name(
    url: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = vizier_cloud.NewStudy(study_config=spec(StudySpec.Algorithm.GRID_SEARCH))
    with Worker(url, loss, pool="lab"), xm_local.create_experiment("search") as experiment:
        study = explore(experiment, grid, 6).study
    jobs = [searched(job) for job in client.jobs_of(experiment.experiment_id)]
    assert {(job["n"], job["c"]) for job in jobs} == {(n, c) for n in range(3) for c in "ab"}
    assert study.study_name.startswith(f"X{experiment.experiment_id}-")
    prefix = f"projects/xmcloud/locations/local/studies/{study.study_name}/trials/"
    assert [job["trial_name"] for job in jobs] == [f"{prefix}{number + 1}" for number in range(6)]
    assert study.best_value == 0
    assert study.best_params["n"] == 1
    assert "loss=0" in capsys.readouterr().err


def test_so_many_trials_run_at_a_time(url: str, client: Client) -> None:
    def behave(job: Job) -> End:
        """Ends when as many are there as can be; the last ones end alone."""
        cursor: str | None = None
        there: dict[str, Job] = {}
        while len(there) < min(TOTAL, job.unit + PARALLEL - 1):
            changes = client.changes(job.experiment_id, cursor, 5)
            cursor = changes.cursor
            there |= {each.id: each for each in changes.jobs}
        active = [each for each in client.jobs_of(job.experiment_id) if not each.state.terminal]
        assert len(active) <= PARALLEL
        return loss(job)

    with Worker(url, behave, pool="lab"), xm_local.create_experiment("bounded") as experiment:
        explore(experiment, vizier_cloud.NewStudy(spec()), TOTAL)
    assert len(list(client.jobs_of(experiment.experiment_id))) == TOTAL


def test_what_fails_or_tells_nothing_gets_no_value(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    silent, told = End(results={"loss": "low"}), End(results={"loss": 4})
    ends = iter([End("failed", "exit code 3"), silent, told])
    with (
        Worker(url, lambda job: next(ends), pool="lab"),
        xm_local.create_experiment("failing") as experiment,
    ):
        study = explore(experiment, vizier_cloud.NewStudy(spec(), display_name="mine"), 3).study
    shown = capsys.readouterr().err
    assert "failed: exit code 3" in shown
    assert "its job gave no number 'loss'" in shown
    assert [trial.value for trial in study.trials if trial.value is not None] == [4]


def test_a_study_goes_on(url: str) -> None:
    with Worker(url, loss, pool="lab"), xm_local.create_experiment("twice") as experiment:
        first = explore(experiment, vizier_cloud.NewStudy(spec()), 2).study
        second = explore(experiment, vizier_cloud.ExistingStudy(first.study_name), 3).study
    assert len(second.trials) == 5
    with pytest.raises(NotFound, match=rf"'gone'\. Those of this machine: {first.study_name}"):
        vizier_cloud.ExistingStudy("gone").study()


def test_a_group_and_a_generator_get_the_parameters(url: str, client: Client) -> None:
    def behave(job: Job) -> End | None:
        return End() if job.name == "b" else loss(job)

    async def generator(work_unit: xm.WorkUnit, args: dict[str, object]) -> None:
        work_unit.add(trial(), {"args": args})

    with Worker(url, behave, pool="lab"), xm_local.create_experiment("group") as experiment:
        group = xm.JobGroup(a=trial(), b=trial())
        study = explore(experiment, vizier_cloud.NewStudy(spec()), 1, group).study
        explore(experiment, vizier_cloud.ExistingStudy(study.study_name), 1, generator)
    assert len(list(client.jobs_of(experiment.experiment_id))) == 3
    assert all("trial_name" in searched(job) for job in client.jobs_of(experiment.experiment_id))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 2


def test_a_job_that_is_refused_ends_the_search(url: str) -> None:
    refused = trial()
    refused.executor = xm_cloud.WorkerPool(queue="nowhere")
    with xm_local.create_experiment("refused") as experiment:
        experiment.add(trial())
        with pytest.raises(NotFound, match="nowhere"):
            explore(experiment, vizier_cloud.NewStudy(spec()), 100, refused)
    assert experiment.work_unit_count == 1


def test_numbers_of_trials_are_checked(url: str) -> None:
    with xm_local.create_experiment("numbers") as experiment:
        experiment.add(trial())
        for total, parallel in ((0, 1), (1, 0)):
            with pytest.raises(InvalidInput, match="1 or more"):
                vizier_cloud.VizierExploration(
                    experiment, trial(), vizier_cloud.NewStudy(spec()), total, parallel
                )
