"""Searches: trials whose parameters an optimizer chooses by what came of those before.

`from xmcloud.vizier import vizier_cloud` stands for XManager's module of that name. The
optimizer is Optuna, and a trial's value is the result of its job that the study names.
"""

import math
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xmcloud import xm
from xmcloud.core.errors import InvalidInput, NotFound, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.names import random_id
from xmcloud.xm_cloud.awaiting import Pending, in_thread
from xmcloud.xm_cloud.experiment import Experiment
from xmcloud.xm_cloud.places import home
from xmcloud.xm_cloud.shared import shared_client
from xmcloud.xm_cloud.statuses import status_of
from xmcloud.xm_cloud.studies import (
    Algorithm,
    Choice,
    Double,
    Integer,
    Search,
    StudySpec,
    search_of,
)
from xmcloud.xm_cloud.units import WorkUnit
from xmcloud.xm_cloud.unsupported import warn_of_unused

if TYPE_CHECKING:
    import optuna

__all__ = [
    "ExistingStudy",
    "NewStudy",
    "OptunaMissing",
    "StudyFactory",
    "StudySpec",
    "VizierExploration",
]

_SEARCH = "search"


class OptunaMissing(XmcloudError):
    """There is nothing to search with."""

    slug, title, status = "optuna-missing", "Optuna is not installed", 422

    def __init__(self) -> None:
        super().__init__("A search needs Optuna.", "Install it: pip install 'xmcloud[search]'.")


class StudyFactory(ABC):
    """Makes or finds a study of this machine; `display_name` may be set until then."""

    display_name: str

    @abstractmethod
    def study(self) -> "optuna.Study":
        """Raises `OptunaMissing`."""


class NewStudy(StudyFactory):
    """A study of its own.

    Raises as `search_of`; `project` and `location` have no effect, since Optuna runs here.
    """

    def __init__(
        self,
        study_config: Any,
        num_trials_total: int = 0,
        display_name: str | None = None,
        project: str | None = None,
        location: str | None = None,
    ) -> None:
        warn_of_unused("project", project, None, "on a study of this machine")
        warn_of_unused("location", location, None, "on a study of this machine")
        self.search = search_of(study_config)
        self.num_trials_total = num_trials_total
        self.display_name = display_name or ""

    def study(self) -> "optuna.Study":
        _require_optuna()
        import optuna

        study = optuna.create_study(
            storage=None if shared_client().dry else _storage(),
            study_name=f"{self.display_name or 'study'}-{random_id()[:6]}",
            direction="maximize" if self.search.maximize else "minimize",
            sampler=_sampler(self.search),
        )
        study.set_user_attr(_SEARCH, self.search.model_dump(mode="json"))
        return study


class ExistingStudy(StudyFactory):
    """Goes on with a study of this machine, by the name that was shown when it began."""

    def __init__(self, study_name: str) -> None:
        self.display_name = study_name

    def study(self) -> "optuna.Study":
        """Raises `NotFound`."""
        _require_optuna()
        import optuna

        storage = _storage()
        try:
            study = optuna.load_study(study_name=self.display_name, storage=storage)
        except KeyError:
            known = ", ".join(optuna.get_all_study_names(storage)) or "none"
            raise NotFound("study", self.display_name, f"Those of this machine: {known}.") from None
        study.sampler = _sampler(_search(study))
        return study


class VizierExploration:
    """Adds a unit for each trial to the experiment, a few at a time."""

    def __init__(
        self,
        experiment: Experiment,
        job: xm.JobType,
        study_factory: StudyFactory,
        num_trials_total: int,
        num_parallel_trial_runs: int,
    ) -> None:
        """Raises `InvalidInput` for numbers below 1."""
        for name, value in (
            ("num_trials_total", num_trials_total),
            ("num_parallel_trial_runs", num_parallel_trial_runs),
        ):
            if value < 1:
                raise InvalidInput(name, value, "1 or more")
        if not study_factory.display_name:
            study_factory.display_name = f"X{experiment.experiment_id}"
        self._experiment, self._job = experiment, job
        self._total, self._parallel = num_trials_total, num_parallel_trial_runs
        self.study = study_factory.study()
        self._search = _search(self.study)
        self._turn = threading.Lock()
        self._left = num_trials_total

    def launch(self, poll_frequency_in_sec: float | None = None) -> None:
        """Returns when every trial has ended; one that failed is no reason to stop.

        Nothing is polled: `poll_frequency_in_sec` has no effect. Raises what refuses a unit.
        """
        warn_of_unused("poll_frequency_in_sec", poll_frequency_in_sec, None, "on a search")
        _say(f"study {self.study.study_name}: {self._total} trials, {self._parallel} at a time")
        try:
            workers = [in_thread(self._work, "xmcloud-search") for _ in range(self._parallel)]
            failures = [worker.exception() for worker in workers]
        finally:
            self._left = 0
        for failure in filter(None, failures):
            raise failure

    def _work(self) -> None:
        while (begun := self._begin()) is not None:
            trial, adding = begun
            with self._ending(trial):
                jobs = [end.result() for end in adding.result().ends()]
            self._end(trial, jobs)

    def _begin(self) -> "tuple[optuna.trial.Trial, Pending[WorkUnit]] | None":
        """One thread at a time, so that numbers of units follow those of trials."""
        with self._turn:
            if self._left == 0:
                return None
            self._left -= 1
            if self._search.algorithm is Algorithm.GRID_SEARCH:
                self.study.enqueue_trial(_grid_point(self._search, len(self.study.trials)))
            trial = self.study.ask()
            with self._ending(trial):
                values = {each.name: _chosen(trial, each) for each in self._search.parameters}
                args = {"trial_name": self._name(trial), **values}
                given = xm.get_args_for_all_jobs(self._job, args)
                return trial, self._experiment.add(self._job, given)

    @contextmanager
    def _ending(self, trial: "optuna.trial.Trial") -> Iterator[None]:
        """A unit that is refused ends the search: the next would be, too."""
        from optuna.trial import TrialState

        try:
            yield
        except BaseException:
            self._left = 0
            self.study.tell(trial, state=TrialState.FAIL)
            raise

    def _name(self, trial: "optuna.trial.Trial") -> str:
        """In the form that Vertex AI gives its trials."""
        study = self.study.study_name
        return f"projects/xmcloud/locations/local/studies/{study}/trials/{trial.number + 1}"

    def _end(self, trial: "optuna.trial.Trial", jobs: Sequence[Job]) -> None:
        from optuna.trial import TrialState

        name = f"trial {trial.number + 1}"
        status, value = status_of(jobs), _value(jobs, self._search.metric)
        if value is not None and status.is_completed:
            self.study.tell(trial, value)
            best = self.study.best_trial
            _say(
                f"{name}: {_shown(self._search.metric, value)}; the best is trial "
                f"{best.number + 1} with {_shown(self._search.metric, best.value)}"
            )
            return
        self.study.tell(trial, state=TrialState.FAIL)
        if status.is_completed:
            _say(
                f"{name}: its job gave no number {self._search.metric!r}. It must write one to "
                "the file named by XMCLOUD_RESULTS, as a JSON object."
            )
        else:
            _say(f"{name}: {status.state.value}: {status.message}")


def _value(jobs: Sequence[Job], metric: str) -> float | None:
    """A NaN never comes here: results are JSON."""
    for job in jobs:
        value = job.results.get(metric)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def _shown(metric: str, value: float | None) -> str:
    return f"{metric}={value:.6g}"


def _chosen(trial: "optuna.trial.Trial", parameter: Double | Integer | Choice) -> Any:
    match parameter:
        case Double():
            return trial.suggest_float(
                parameter.name, parameter.low, parameter.high, log=parameter.log
            )
        case Integer():
            return trial.suggest_int(
                parameter.name, parameter.low, parameter.high, log=parameter.log
            )
        case Choice():
            return trial.suggest_categorical(parameter.name, parameter.values)


def _search(study: "optuna.Study") -> Search:
    return Search.model_validate(study.user_attrs[_SEARCH])


def _sampler(search: Search) -> "optuna.samplers.BaseSampler":
    from optuna.samplers import RandomSampler, TPESampler

    if search.algorithm is Algorithm.ALGORITHM_UNSPECIFIED:
        return TPESampler(constant_liar=True)
    return RandomSampler()


def _grid_point(search: Search, number: int) -> dict[str, str | float]:
    """The points of the grid in order; after the last comes the first again."""
    point: dict[str, str | float] = {}
    for each in search.parameters:
        assert not isinstance(each, Double)
        values = range(each.low, each.high + 1) if isinstance(each, Integer) else each.values
        number, index = divmod(number, len(values))
        point[each.name] = values[index]
    return point


def _storage() -> "optuna.storages.BaseStorage":
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    return JournalStorage(JournalFileBackend(str(folder / "studies.log")))


def _require_optuna() -> None:
    """Raises `OptunaMissing`; keeps it from telling what we tell."""
    try:
        import optuna
    except ImportError:
        raise OptunaMissing from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _say(text: str) -> None:
    sys.stderr.write(f"xmcloud: {text}\n")
