"""Why a job waits: every cause, from the facts alone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.builders import (
    BUILD_ID,
    DIGEST,
    JOB_ID,
    building,
    draft,
    in_state,
    queued,
    session,
    spec,
)
from tests.support.clock import START
from xmcloud.core import builds, lifecycle
from xmcloud.core.builds import BuildSpec
from xmcloud.core.models import Block, Gathering, Job, JobState, Member, Place, Vain, Wanted
from xmcloud.core.pending import causes
from xmcloud.core.pending_facts import Facts, Pool, Room, TargetFacts, Worker
from xmcloud.core.protocol import CauseCode, QueuePlace
from xmcloud.core.specs import Overflow

C = CauseCode
OTHER_ID = "k" * 16
SOON = START + timedelta(seconds=20)
HEAD = QueuePlace(queue="default", place=1, waiting=60)
LATER = QueuePlace(queue="default", place=14, waiting=60)
TARGET = TargetFacts(limit=100, per_minute=40, running=0, submissions=1, blocks={})


def worker(
    name: str = "ant",
    pool: str = "gpu",
    slots: int = 1,
    free: int = 1,
    queues: tuple[str, ...] = ("default",),
    left: Mapping[str, float] | None = None,
    **resources: float,
) -> Worker:
    fields = {"worker": name, "pool": pool, "slots": slots, "queues": queues}
    one = session(name.ljust(16, "a")).evolve(resources=resources, **fields)
    return Worker(one, Room(free, resources if left is None else left))


def job(pool: str = "gpu", **resources: float) -> Job:
    return queued(spec(pool=pool, resources=resources))


def pair(first: Job, second: Job | None = None) -> list[Job]:
    members = (Member(id=JOB_ID, name="train"), Member(id=OTHER_ID, name="eval"))
    other = (second or first).evolve(id=OTHER_ID, name="eval", group=members)
    return [first.evolve(group=members), other]


def facts(job: Job, *workers: Worker, **more: object) -> Facts:
    return replace(Facts(START, [job], "jjjj", workers=workers, place=HEAD), **more)  # type: ignore[arg-type]


def told(job: Job, facts: Facts) -> list[tuple[CauseCode, str]]:
    return [(cause.code, cause.message) for cause in causes(job, facts)]


def shut(worker: Worker, closed: str = "", wanted: Wanted = Wanted.RUN) -> Worker:
    return replace(worker, session=worker.session.evolve(closed=closed, wanted=wanted))


JOB, TWO = job(), job(gpu=2)
HOURS = "outside its hours"
PLACE = "place 14 of 60 in default"
ALONE: dict[str, tuple[Job, Facts, CauseCode, str]] = {
    "draft": (draft(), facts(draft()), C.DRAFT, "nobody enqueued it"),
    "paused": (JOB, facts(JOB, worker(), paused=True), C.QUEUE_PAUSED, "queue default is paused"),
    "no worker of the pool": (
        JOB, facts(JOB), C.NO_WORKER, "no worker of pool gpu is connected",
    ),
    "no worker at all": (job(""), facts(job("")), C.NO_WORKER, "no worker is connected"),
    "its one worker is closed": (
        JOB,
        facts(JOB, shut(worker(), HOURS)),
        C.WORKERS_CLOSED,
        "worker ant takes no jobs: outside its hours",
    ),
    "all workers are closed": (
        JOB,
        facts(JOB, shut(worker(), HOURS), shut(worker("bee"), wanted=Wanted.DRAIN)),
        C.WORKERS_CLOSED,
        f"the 2 workers of pool gpu that could run it take no jobs: it was drained, {HOURS}",
    ),
    "the one that is large enough is closed": (
        TWO,
        facts(TWO, shut(worker(gpu=2), HOURS), worker("bee", gpu=1)),
        C.WORKERS_CLOSED,
        "the 2 workers of pool gpu that could run it take no jobs: outside its hours, too small",
    ),
    "one of two is closed": (
        JOB,
        facts(JOB, shut(worker(), HOURS), worker("bee", free=0)),
        C.WORKERS_BUSY,
        "worker bee is busy; place 1 of 60 in default",
    ),
    "another queue": (
        JOB,
        facts(JOB, worker(queues=("low",))),
        C.QUEUE_NOT_SERVED,
        "no worker of pool gpu serves queue default",
    ),
    "too large": (
        TWO,
        facts(TWO, worker(gpu=1), worker("bee")),
        C.TOO_LARGE,
        "it asks for 2 gpu; the largest worker of pool gpu has 1 gpu",
    ),
    "a kind that nobody has": (
        TWO,
        facts(TWO, worker(cpu=8)),
        C.TOO_LARGE,
        "it asks for 2 gpu; the largest worker of pool gpu has no gpu",
    ),
    "bytes": (
        job(memory=64e9),
        facts(job(memory=64e9), worker(memory=33.6e9)),
        C.TOO_LARGE,
        "it asks for 64 GB of memory; the largest worker of pool gpu has 33.6 GB of memory",
    ),
    "nobody has both": (
        job(cpu=4, gpu=1),
        facts(job(cpu=4, gpu=1), worker(cpu=8), worker("bee", cpu=2, gpu=1)),
        C.TOO_LARGE,
        "it asks for 4 cpu and 1 gpu; no single worker of pool gpu has all of it",
    ),
    "one slot": (
        JOB,
        facts(JOB, worker(free=0), place=LATER),
        C.WORKERS_BUSY,
        f"worker ant is busy; {PLACE}",
    ),
    "slots": (
        JOB,
        facts(JOB, worker(slots=2, free=0), worker("bee", free=0), place=LATER),
        C.WORKERS_BUSY,
        f"all 3 slots of the 2 workers that could run it are taken; {PLACE}",
    ),
    "only the workers that could run it count": (
        TWO,
        facts(TWO, worker(gpu=2, slots=4, free=0), worker("bee", gpu=1), place=None),
        C.WORKERS_BUSY,
        "all 4 slots of worker ant are taken",
    ),
    "resources in use": (
        TWO,
        facts(TWO, worker(gpu=2, slots=4, free=3, left={"gpu": 1})),
        C.WORKERS_BUSY,
        "other jobs use 2 gpu of worker ant; place 1 of 60 in default",
    ),
    "behind others": (
        JOB,
        facts(JOB, worker(), place=LATER),
        C.BEHIND_OTHERS,
        f"those ahead of it go first; {PLACE}",
    ),
    "its place is not known": (
        JOB,
        facts(JOB, worker(), place=None),
        C.STARTING_SOON,
        "others may be ahead of it; nothing else holds it up",
    ),
    "a permit under way": (
        JOB,
        facts(JOB, worker()),
        C.STARTING_SOON,
        "its permit is on the way: it should start any moment",
    ),
    "a permit that was delivered": (
        lifecycle.permit_confirmed(JOB, START),
        facts(JOB, worker()),
        C.STARTING_SOON,
        "its turn has only just come: it should start any moment",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALONE)
def test_a_job_alone(case: str) -> None:
    job, facts, code, message = ALONE[case]
    assert told(job, facts) == [(code, message)]


def at(
    target: TargetFacts | None = TARGET, place: QueuePlace | None = None, **changes: object
) -> Facts:
    changed = replace(target, **changes) if target else None  # type: ignore[arg-type]
    return facts(CLOUD, for_target=True, target=changed, place=place)


CLOUD = job("cloud")
BLOCKS = {"": Block(until=SOON, message="no quota left")}
TARGETS: dict[str, tuple[Facts, CauseCode, str]] = {
    "not there": (at(None), C.NO_TARGET, "this control plane has no target cloud"),
    "blocked": (
        at(blocks=BLOCKS),
        C.TARGET_BLOCKED,
        "cloud refuses jobs without accelerator for 20 s more: no quota left",
    ),
    "another kind is blocked": (
        at(blocks={"t4": BLOCKS[""]}, place=HEAD),
        C.STARTING_SOON,
        "its permit is on the way: it should start any moment",
    ),
    "full": (at(running=100), C.TARGET_FULL, "cloud is at its limit: 100 of 100 running"),
    "full, far behind": (
        at(running=100, place=LATER),
        C.TARGET_FULL,
        f"cloud is at its limit: 100 of 100 running; {PLACE}",
    ),
    "paced": (
        at(submissions=0.5),
        C.TARGET_PACED,
        "cloud takes 40 submissions a minute, the next in 1 s",
    ),
}


@pytest.mark.parametrize("case", TARGETS)
def test_a_job_for_a_target(case: str) -> None:
    facts, code, message = TARGETS[case]
    assert told(CLOUD, facts) == [(code, message)]


GATHERS = Gathering(
    leader=JOB_ID, deadline=SOON, places={JOB_ID: Place(session="ant".ljust(16, "a"), port=1)}
)
GROUPS: dict[str, tuple[list[Job], dict[str, object], CauseCode, str]] = {
    "not whole": (
        pair(JOB, in_state(JobState.RUNNING)),
        {},
        C.GROUP_NOT_WHOLE,
        "its group starts as a whole, and eval is running",
    ),
    "one asks for too much": (
        pair(JOB, TWO),
        {},
        C.TOO_LARGE,
        "eval of its group asks for 2 gpu; the largest worker of pool gpu has no gpu",
    ),
    "more than there are slots": (
        pair(JOB),
        {"pools": [Pool("gpu", holds_group=False)], "workers": [worker()]},
        C.GROUP_TOO_LARGE,
        "its group of 2 starts as a whole; the workers of pool gpu have 1 slot in all",
    ),
    "more than there is": (
        pair(JOB),
        {"pools": [Pool("gpu", holds_group=False)]},
        C.GROUP_TOO_LARGE,
        (
            "its group of 2 starts as a whole; the workers of pool gpu "
            "together have no room for all of it at once"
        ),
    ),
    "gathering": (
        pair(JOB),
        {"pools": [Pool("gpu", GATHERS)]},
        C.GROUP_GATHERING,
        "its group has 1 of 2 places, kept for it for 20 s more",
    ),
    "gathering, its worker gone": (
        pair(JOB),
        {"pools": [Pool("gpu", GATHERS)], "workers": [worker("bee", slots=2)]},
        C.GROUP_GATHERING,
        "its group has 0 of 2 places, kept for it for 20 s more",
    ),
    "another one gathers": (
        pair(JOB),
        {"pools": [Pool("gpu", GATHERS.evolve(leader=OTHER_ID))]},
        C.OTHER_GROUP,
        "another group gathers its places first, for 20 s more at most",
    ),
    "resting": (
        pair(JOB),
        {"pools": [Pool("gpu", vain={JOB_ID: Vain(count=2, rests_until=SOON)})]},
        C.GROUP_RESTING,
        "its group gathered 2 times in vain and lets others go first, for 20 s more",
    ),
    "rested": (
        pair(JOB),
        {"pools": [Pool("gpu", vain={JOB_ID: Vain(count=1, rests_until=START)})]},
        C.STARTING_SOON,
        "its permit is on the way: it should start any moment",
    ),
    "another pool would take it": (
        pair(job("")),
        {"pools": [Pool("gpu", GATHERS.evolve(leader=OTHER_ID)), Pool("local")]},
        C.STARTING_SOON,
        "its permit is on the way: it should start any moment",
    ),
    "busy": (
        pair(JOB),
        {"pools": [Pool("gpu")], "workers": [worker(), worker("bee", free=0)]},
        C.WORKERS_BUSY,
        "its group needs 2 slots at once, and 1 is free; place 1 of 60 in default",
    ),
    "a target that is full": (
        pair(CLOUD),
        {"for_target": True, "target": replace(TARGET, running=99)},
        C.TARGET_FULL,
        (
            "cloud is at its limit: 99 of 100 running, and its group needs 2 at once; "
            "place 1 of 60 in default"
        ),
    ),
    "larger than the target": (
        pair(CLOUD),
        {"for_target": True, "target": replace(TARGET, limit=1)},
        C.GROUP_TOO_LARGE,
        "its group has 2 jobs; cloud runs 1 at a time",
    ),
}


@pytest.mark.parametrize("case", GROUPS)
def test_a_group(case: str) -> None:
    unit, more, code, message = GROUPS[case]
    given = {"unit": unit, "workers": [worker(), worker("bee")], "pools": [Pool("gpu")], **more}
    assert told(unit[0], facts(unit[0], **given)) == [(code, message)]


def test_the_most_decisive_cause_comes_first_and_the_way_out_last() -> None:
    overflowing = queued(
        spec(pool="gpu").evolve(overflow=Overflow(target="vertex", after_seconds=600))
    )
    found = causes(overflowing, facts(overflowing, paused=True))
    assert [cause.code for cause in found] == [C.QUEUE_PAUSED, C.NO_WORKER, C.OVERFLOWS]
    assert found[2].message == "it goes to vertex in 10 min, unless a worker takes it first"
    assert found[2].until == START + timedelta(minutes=10)


def test_what_is_tried_again_says_when_and_why_unless_the_target_says_so() -> None:
    assert CLOUD.waiting is not None
    later = CLOUD.evolve(waiting=CLOUD.waiting.evolve(not_before=SOON))
    ready, blocked = at(), at(blocks=BLOCKS)
    found = causes(later, replace(ready, unit=[later]))
    assert (found[0].code, found[0].until) == (C.NOT_BEFORE, SOON)
    assert found[0].message == "it is tried again in 20 s: enqueued by ann"
    assert [c.code for c in causes(later, replace(blocked, unit=[later]))] == [C.TARGET_BLOCKED]
    over = replace(ready, unit=[later], now=SOON)
    assert [c.code for c in causes(later, over)] == [C.STARTING_SOON]


def test_a_build_is_named_with_its_state_and_age() -> None:
    job = building()
    asked = builds.requested(BuildSpec(archive=DIGEST, name="train"), "ann", START)
    given = replace(facts(job), build=asked.evolve(id=BUILD_ID), now=START + timedelta(minutes=3))
    (cause,) = causes(job, given)
    assert cause.code is C.BUILDING
    assert (
        cause.message == "its image is being built: build bbbbbbbb is queued, asked for 3 min ago"
    )
    assert cause.remedy == "See how it goes: xmcloud build show bbbbbbbb"
    assert told(job, facts(job)) == [(C.BUILDING, "its image is being built")]


@pytest.mark.parametrize("state", [s for s in JobState if s.active or s.terminal])
def test_what_has_started_waits_for_nothing(state: JobState) -> None:
    assert causes(in_state(state), facts(in_state(state))) == []


@pytest.mark.parametrize(
    ("job", "facts", "remedy"),
    [
        (draft(), facts(draft()), "Enqueue it: xmcloud enqueue jjjj"),
        (JOB, facts(JOB), "Start one: xmcloud worker start --pool gpu"),
        (job("local"), facts(job("local")), "Start one: xmcloud worker start"),
        (
            JOB.evolve(queue="nightly"),
            facts(JOB, worker()),
            "Start one that does: xmcloud worker start --pool gpu --queue nightly",
        ),
        (JOB, facts(JOB, paused=True), "Resume it: xmcloud queue resume default"),
        (
            JOB,
            facts(JOB, worker(free=0), place=LATER),
            "Move it ahead: xmcloud queue move jjjj front",
        ),
        (JOB, facts(JOB, worker(free=0)), ""),
        (JOB, facts(JOB, shut(worker(), HOURS)), ""),
        (
            JOB,
            facts(JOB, shut(worker(), wanted=Wanted.DRAIN)),
            "Let it take jobs again: xmcloud worker resume ant",
        ),
    ],
)
def test_remedies(job: Job, facts: Facts, remedy: str) -> None:
    assert causes(job, facts)[0].remedy == remedy


@pytest.mark.parametrize(
    ("seconds", "span"),
    [(0.1, "1 s"), (119, "119 s"), (119.5, "2 min"), (3600, "60 min"), (7800, "2 h 10 min")],
)
def test_spans_are_rounded_up(seconds: float, span: str) -> None:
    block = Block(until=START + timedelta(seconds=seconds), message="no")
    ((_, message),) = told(CLOUD, at(blocks={"": block}))
    assert f"for {span} more" in message
