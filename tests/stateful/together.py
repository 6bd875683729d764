"""Groups that need several workers, and a target whose platform fails in every way it may."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.stateful.deeds import ENDS, LIMIT, Deeds, Killed
from tests.stateful.draws import outcomes
from tests.stateful.keeper import Keeper
from tests.stateful.ledger import check_history
from tests.stateful.machine import AGES
from tests.stateful.promises import check_group, check_launch, check_losses
from tests.support.builders import image_spec
from tests.support.planes import LEASE
from xmcloud.core.control import experiments
from xmcloud.core.control.changing import target_session
from xmcloud.core.control.submissions import SUBMITTING
from xmcloud.core.documents import JOBS, SESSIONS
from xmcloud.core.errors import XmcloudError
from xmcloud.core.models import Job, JobState, Outcome
from xmcloud.core.platforms import PlatformState
from xmcloud.core.ports import Query, Subscription
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits

ENOUGH = 150
"""Rounds of five seconds in which everything that waits is run, when nothing fails."""

NEEDS: tuple[dict[str, float], ...] = ({}, {"cpu": 1.0}, {"gpu": 1.0})


@st.composite
def groups(draw: st.DrawFn) -> NewUnit:
    pool = draw(st.sampled_from(("local", "cloud")))
    needs = draw(st.lists(st.sampled_from(NEEDS), min_size=1, max_size=3))
    retries = draw(st.integers(0, 1))
    limits = {"retries": retries, "infrastructure_retries": draw(st.integers(0, 2))}
    return NewUnit(
        jobs=tuple(
            NewJob(
                name=name,
                spec=image_spec("registry.example/train").evolve(
                    pool=pool, resources=needed, limits=limits
                ),
            )
            for name, needed in zip("abc", needs, strict=False)
        )
    )


def units_of_three(queue: str) -> NewUnits:
    """A group that needs more than one worker."""
    spec = image_spec("registry.example/train").evolve(pool="local")
    jobs = tuple(NewJob(name=name, spec=spec, queue=queue) for name in "abc")
    return NewUnits(units=(NewUnit(jobs=jobs),))


class Together(Deeds):
    """After every step the store is read and held against what was promised of groups."""

    @initialize(units=st.lists(groups(), min_size=1, max_size=4), staff=st.integers(1, 7))
    def begin(self, units: list[NewUnit], staff: int) -> None:
        """`staff` has a bit for each worker that is there."""
        everything = [Subscription("queue-default", pool) for pool in ("local", "cloud")]
        self.run(self.plane.queue.subscribe(everything))
        new = NewExperiment(title="together")
        self.experiment = self.run(experiments.create_experiment(self.plane, new, "one")).id
        self.run(self.add(NewUnits(units=tuple(units))))
        for index, worker in enumerate(self.workers):
            if staff & 1 << index:
                self.run(self.opens(worker))

    def teardown(self) -> None:
        try:
            if self.experiment:
                self.heal()
        finally:
            self.run(self.rig.close())
            self.runner.close()
            self.patches.undo()
            self.folder.cleanup()

    @precondition(lambda self: len(self.jobs) < 20)
    @rule(unit=groups())
    def one_more(self, unit: NewUnit) -> None:
        self.do(lambda: self.add(NewUnits(units=(unit,))))

    @rule(data=st.data())
    def people_act(self, data: st.DataObject) -> None:
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)), "job")]
        deeds = (self.stops, self.dequeues, self.enqueues, self.enqueues, self.resets)
        deed = data.draw(st.sampled_from(deeds), "deed")
        self.do(lambda: deed(job))

    @rule(data=st.data(), lost=st.sampled_from((False, False, True)))
    def all_have_a_turn(self, data: st.DataObject, lost: bool) -> None:
        """In some order; those that are not there come; the answer to the first may be lost."""
        for worker in data.draw(st.permutations(self.workers), "order"):
            if worker.session is None:
                self.do(partial(self.opens, worker))
            self.do(partial(self.turn, worker, lost))
            lost = False

    @rule(data=st.data(), count=st.integers(1, 3))
    def some_end(self, data: st.DataObject, count: int) -> None:
        running = [(worker, id) for worker in self.workers for id in sorted(worker.running)]
        for worker, id in running[:count]:
            outcome = data.draw(outcomes)
            if id in worker.running:
                self.do(partial(self.ends, worker, id, outcome))

    @rule(data=st.data(), how=st.sampled_from(("crash", "leave", "open")))
    def a_worker_goes(self, data: st.DataObject, how: str) -> None:
        worker = data.draw(st.sampled_from(self.workers), "worker")
        if worker.session is None or how == "open":
            self.do(lambda: self.opens(worker))
        elif how == "crash":
            worker.crash()
        else:
            self.do(lambda: self.leaves(worker))

    @rule(seconds=st.sampled_from((1, 5, 10, 21, 31, 61)), swept=st.booleans())
    def time_passes(self, seconds: int, swept: bool) -> None:
        """Mostly workers that are there keep their leases."""
        self.clock.advance(seconds)
        if swept:
            self.do(self.sweeps)

    @rule()
    def the_target_takes(self) -> None:
        self.do(self.dispatches)

    @precondition(lambda self: self.platform.live())
    @rule(data=st.data(), state=st.sampled_from((PlatformState.RUNNING, *ENDS)))
    def the_platform_goes_on(self, data: st.DataObject, state: PlatformState) -> None:
        """Of which no event tells, or one, or the same one twice."""
        name = data.draw(st.sampled_from(self.platform.live()), "name")
        events = data.draw(st.integers(0, 2), "events")
        self.do(lambda: self.becomes(name, state, events))

    @precondition(lambda self: self.platform.live())
    @rule(data=st.data(), outcome=st.sampled_from((Outcome.COMPLETED, Outcome.FAILED)))
    def a_process_tells(self, data: st.DataObject, outcome: Outcome) -> None:
        name = data.draw(st.sampled_from(self.platform.live()), "name")
        self.do(lambda: self.tells(name, outcome))

    @precondition(lambda self: self.platform.live())
    @rule(data=st.data())
    def the_platform_forgets(self, data: st.DataObject) -> None:
        self.platform.forget(data.draw(st.sampled_from(self.platform.live()), "name"))

    @rule(
        mishap=st.sampled_from(("quota", "lost_requests", "lost_answers", "refused")),
        swept=st.booleans(),
    )
    def a_submission_fails(self, mishap: str, swept: bool) -> None:
        """This one, or else the next; the sweep may soon look what became of it."""
        setattr(self.platform.mishaps, mishap, 1)
        self.do(self.dispatches)
        if swept:
            self.clock.advance(SUBMITTING)
            self.do(self.sweeps)

    @rule(silent=st.booleans(), slow=st.booleans())
    def the_platform_changes(self, silent: bool, slow: bool) -> None:
        self.platform.mishaps.silent = silent
        if slow:
            self.platform.slow = True
        else:
            self.platform.catch_up()

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), after=st.integers(0, 12))
    def killed(self, data: st.DataObject, after: int) -> None:
        """The control plane dies before some operation; nobody gets an answer."""
        left = after

        async def die(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed(operation)

        deed = data.draw(st.sampled_from(self.deeds(data)), "deed")
        self.rig.recording.before = die
        self.do(deed)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), after=st.integers(0, 12))
    def meanwhile(self, data: st.DataObject, after: int) -> None:
        """Somebody does something between two operations of somebody else."""
        left = after
        deed = data.draw(st.sampled_from(self.deeds(data)), "deed")
        other = data.draw(st.sampled_from(self.deeds(data)), "other")

        async def step_in(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.rig.recording.reset()
                with suppress(XmcloudError):
                    await other()
                await self.look()

        self.rig.recording.before = step_in
        self.do(deed)

    @precondition(lambda self: any(job.pool == "cloud" for job in self.jobs.values()))
    @rule()
    def a_submission_takes_long(self) -> None:
        """So long that the sweep takes it for lost, and makes another."""

        async def sweeps(operation: str) -> None:
            if operation == "platform.submit":
                self.rig.recording.reset()
                self.clock.advance(SUBMITTING)
                await self.sweeps()

        self.platform.mishaps.lost_answers, self.platform.mishaps.silent = 0, False
        self.rig.recording.before = sweeps
        self.do(self.dispatches)

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        self.run(self.look())
        self.freed.clear()
        self.run(self.note_sessions())

    async def look(self) -> None:
        page, _ = await JOBS.find(self.rig.store, Query("jobs", limit=400))
        after = {stored.item.id: stored.item for stored in page}
        for id, before in self.jobs.items():
            check_history(before, after[id], free=id in self.freed)
            if id not in self.freed:
                check_losses(before, after[id])
        for job in after.values():
            check_group([after[id] for id in job.members])
        for launch in [*self.platform.launches.values()][self.launches :]:
            check_launch(launch, after)
        held = [job for job in after.values() if job.attempt and job.attempt.worker == "cloud"]
        assert all(j.attempt and j.attempt.session == target_session("cloud") for j in held)
        assert len(held) <= LIMIT, "the target has more than its limit"
        self.jobs, self.launches = after, len(self.platform.launches)

    async def note_sessions(self) -> None:
        page, _ = await SESSIONS.find(self.rig.store, Query("sessions", limit=400))
        self.watch.closed = {stored.item.id for stored in page if not stored.item.open}

    def heal(self) -> None:
        """Nothing fails any more, and healthy workers come: then every job ends.

        Among them are two groups that need more than half of all slots, each preferred by one
        of the workers, and a third worker keeps a place for one of them and leaves.
        """
        mishaps = self.platform.mishaps
        mishaps.silent = False
        self.platform.catch_up()
        mishaps.quota = mishaps.refused = mishaps.lost_requests = mishaps.lost_answers = 0
        for worker in self.workers:
            worker.crash()
        for wait in (LEASE, AGES, timedelta(seconds=1)):
            self.clock.advance(wait)
            self.do(self.sweeps)
            self.all_is_as_it_must_be()
        self.check_platform()
        gnu = Keeper("gnu", "local", ("high",), 1, {})
        helpers = [
            Keeper("elk", "local", ("high", "default"), 2, {"cpu": 2.0, "gpu": 2.0}),
            Keeper("fox", "local", ("default", "high"), 2, {"cpu": 2.0, "gpu": 2.0}),
        ]
        for queue in ("high", "default"):
            self.do(partial(self.add, units_of_three(queue)))
        for helper in (gnu, *helpers):
            self.do(partial(self.opens, helper))
        self.do(partial(self.turn, gnu))
        self.do(partial(self.leaves, gnu))
        self.all_is_as_it_must_be()
        for _ in range(ENOUGH):
            if not self.unfinished():
                return
            self.heal_turn(helpers)
        raise AssertionError(f"stranded: {self.unfinished()}")

    def unfinished(self) -> list[Job]:
        return [j for j in self.jobs.values() if j.state.active or j.state is JobState.QUEUED]

    def check_platform(self) -> None:
        """What runs there is what is held there, once for each attempt."""
        open_attempts = [job.attempt for job in self.jobs.values() if job.attempt]
        remotes = {attempt.remote.name for attempt in open_attempts if attempt.remote}
        assert set(self.platform.live()) == remotes, "the platform runs something else"

    def heal_turn(self, helpers: list[Keeper]) -> None:
        for helper in helpers:
            self.do(partial(self.turn, helper))
            for id in list(helper.running):
                self.do(partial(self.ends, helper, id, Outcome.COMPLETED))
        for name in self.platform.live():
            self.do(partial(self.becomes, name, PlatformState.SUCCEEDED))
        self.do(self.sweeps)
        self.clock.advance(5)
        self.all_is_as_it_must_be()
