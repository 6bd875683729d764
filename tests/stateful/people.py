"""What people ask for: experiments, and what is done to their jobs."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.base import Base
from tests.stateful.draws import QUEUES, batches, specs, stops
from tests.stateful.ledger import LEGAL
from xmcloud.core.control import changes, cloning, experiments, jobs
from xmcloud.core.errors import IllegalTransition, KeyReused
from xmcloud.core.models import Job, JobState, Outcome
from xmcloud.core.protocol import (
    Act,
    Acted,
    CloneExperiment,
    EditJob,
    Enqueue,
    NewExperiment,
    NewUnits,
    Stop,
)

T = TypeVar("T")

JOBS_LIMIT = 40


class Researchers(Base):
    """Who creates experiments, adds to them and follows what becomes of them.

    `requests` are the batches sent, by key, with their experiment and the jobs made of them;
    `followed` is, for an experiment, the cursor of the last answer and when each job had changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[str, tuple[str, NewUnits, list[str]]] = {}
        self.followed: dict[str, tuple[str | None, dict[str, object]]] = {}

    def create_experiment(self, title: str) -> None:
        key, request = next(self.keys), NewExperiment(title=title)
        made = self.run(experiments.create_experiment(self.plane, request, key))
        again = self.run(experiments.create_experiment(self.plane, request, key))
        assert made.id == again.id
        other = NewExperiment(title=f"not {title}")
        with pytest.raises(KeyReused):
            self.run(experiments.create_experiment(self.plane, other, key))
        self.experiments.append(made.id)

    @precondition(lambda self: len(self.experiments) < 3)
    @rule(title=st.sampled_from(("second", "third")))
    def another_experiment(self, title: str) -> None:
        self.create_experiment(title)

    @precondition(lambda self: len(self.jobs) < JOBS_LIMIT)
    @rule(data=st.data(), request=batches)
    def add_batch(self, data: st.DataObject, request: NewUnits) -> None:
        self.add(self.some_experiment(data), request)

    def add(self, experiment: str, request: NewUnits) -> None:
        key = next(self.keys)
        made = self.run(experiments.add_units(self.plane, experiment, request, key))
        self.requests[key] = (experiment, request, [job.id for job in made])
        assert [job.name for job in made] == [unit.jobs[0].name for unit in request.units]
        for job in made:
            assert job.id not in self.jobs
            waits = request.units[0].jobs[0].queue is not None
            self.ledger.expected[job.id] = JobState.QUEUED if waits else JobState.DRAFT

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), same=st.booleans(), other=batches)
    def add_batch_again(self, data: st.DataObject, same: bool, other: NewUnits) -> None:
        key = data.draw(st.sampled_from(sorted(self.requests)), "key")
        experiment, request, made = self.requests[key]
        again = request if same else other
        adding = experiments.add_units(self.plane, experiment, again, key)
        if again != request:
            with pytest.raises(KeyReused):
                self.run(adding)
        else:
            assert [job.id for job in self.run(adding)] == made

    @precondition(
        lambda self: self.jobs and len(self.jobs) < JOBS_LIMIT and len(self.experiments) < 6
    )
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        job = self.some_job(data)
        key = next(self.keys)
        for _ in range(2):
            made = self.run(cloning.clone_job(self.plane, job.id, CloneExperiment(), key))
            assert made.units == 1
        self.experiments.append(made.id)
        there = self.run(self.all_jobs()).values()
        (copy,) = (job for job in there if job.experiment_id == made.id)
        assert (copy.spec, copy.cloned_from) == (job.spec, job.id)
        assert (copy.attempts, copy.results) == ((), {})
        self.ledger.expected[copy.id] = JobState.DRAFT

    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        """Whoever asks what changed since the last answer misses nothing."""
        experiment = self.some_experiment(data)
        cursor, known = self.followed.get(experiment, (None, {}))
        answer = self.run(changes.changes(self.plane, experiment, cursor, 0))
        known = known | {job.id: job.updated_at for job in answer.jobs}
        assert known == {job.id: job.updated_at for job in self.jobs_in(experiment)}
        self.followed[experiment] = (answer.cursor, known)

    @rule(data=st.data())
    def counts_agree(self, data: st.DataObject) -> None:
        experiment = self.some_experiment(data)
        status = self.run(experiments.experiment_status(self.plane, experiment))
        mine = [job.state for job in self.jobs_in(experiment)]
        assert status.states == {state: mine.count(state) for state in JobState if state in mine}
        assert status.experiment.units == len(mine)


class People(Researchers):
    """Who acts on jobs: each action in the states it is for, refused in all others."""

    def act(self, action: str, job: Job, work: Coroutine[Any, Any, object]) -> bool:
        """Whether the job was in a state for it; else the refusal names such states."""
        if job.state in LEGAL[action]:
            self.run(work)
            return True
        with pytest.raises(IllegalTransition) as refused:
            self.run(work)
        assert all(state.value in refused.value.remedy for state in LEGAL[action])
        self.ledger.expected[job.id] = job.state
        return False

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES))
    def enqueue(self, data: st.DataObject, queue: str) -> None:
        job = self.some_job(data, "enqueue")
        if self.act("enqueue", job, jobs.enqueue_job(self.plane, job.id, Enqueue(queue=queue))):
            self.freed.add(job.id)
            self.ledger.expected[job.id] = JobState.QUEUED

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def dequeue(self, data: st.DataObject) -> None:
        job = self.some_job(data, "dequeue")
        if self.act("dequeue", job, jobs.dequeue_job(self.plane, job.id, Act())):
            assert job.waiting is not None
            self.ledger.expected[job.id] = JobState(job.waiting.before)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        job = self.some_job(data, "reset")
        if self.act("reset", job, jobs.reset_job(self.plane, job.id, Act())):
            self.freed.add(job.id)
            self.ledger.expected[job.id] = JobState.DRAFT

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), request=stops)
    def stop(self, data: st.DataObject, request: Stop) -> None:
        job = self.some_job(data, "stop")
        if self.act("stop", job, jobs.stop_job(self.plane, job.id, request)):
            self.ledger.stop(job, request.outcome)

    @precondition(lambda self: self.ledger.holders)
    @rule(data=st.data(), request=stops)
    def stop_what_runs(self, data: st.DataObject, request: Stop) -> None:
        job = self.jobs[data.draw(st.sampled_from(sorted(self.ledger.holders)), "job")]
        self.act("stop", job, jobs.stop_job(self.plane, job.id, request))
        self.ledger.stop(job, request.outcome)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), definition=specs)
    def edit(self, data: st.DataObject, definition: Any) -> None:
        job = self.some_job(data, "edit")
        if self.act("edit", job, jobs.edit_job(self.plane, job.id, EditJob(spec=definition))):
            self.ledger.expected[job.id] = JobState.DRAFT

    @precondition(lambda self: self.jobs)
    @rule(
        data=st.data(),
        action=st.sampled_from(("enqueue", "enqueue", "enqueue", "stop", "reset", "dequeue")),
    )
    def act_on_all(self, data: st.DataObject, action: str) -> None:
        experiment = self.some_experiment(data)
        deeds: dict[str, Callable[[], Coroutine[Any, Any, Acted]]] = {
            "stop": lambda: jobs.stop_all(self.plane, experiment, Stop()),
            "reset": lambda: jobs.reset_all(self.plane, experiment, Act()),
            "enqueue": lambda: jobs.enqueue_all(self.plane, experiment, Enqueue()),
            "dequeue": lambda: jobs.dequeue_all(self.plane, experiment, Act()),
        }
        acted = self.run(deeds[action]())
        legal = [job for job in self.jobs_in(experiment) if job.state in LEGAL[action]]
        skipped = [job for job in self.jobs_in(experiment) if job not in legal]
        if acted is not None:
            assert {job.id for job in acted.jobs} == {job.id for job in legal}
            assert {each.job_id for each in acted.skipped} == {job.id for job in skipped}
        for job in legal:
            if action == "stop":
                self.ledger.stop(job, Outcome.STOPPED)
            elif action in ("reset", "enqueue"):
                self.freed.add(job.id)
