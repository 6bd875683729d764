"""The ledger of GPU time, and how a quota's refusal reads."""

from datetime import timedelta

import pytest

from tests.support.builders import EXITED, LOST, SESSION_ID, draft, spec
from tests.support.clock import START
from xmcloud.core import lifecycle
from xmcloud.core.models import Job, Outcome
from xmcloud.core.quotas import Excess, Whose
from xmcloud.core.usage import ledger, month_of

HOUR = timedelta(hours=1)
LATER = START + HOUR


def claimed(**resources: float) -> Job:
    waiting = lifecycle.enqueued(draft(spec(resources=resources)), "default", 1, "ann", START)
    return lifecycle.claimed(waiting, "w", SESSION_ID, START)


def finished(job: Job, outcome: Outcome = Outcome.COMPLETED) -> Job:
    return lifecycle.finished(job, job.fence, outcome, EXITED, LATER)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_attempt_that_held_gpus_is_entered_however_it_ends(outcome: Outcome) -> None:
    before = claimed(a100=2, cpu=8)
    (entry,) = ledger(before, finished(before, outcome))
    assert (entry.project, entry.person, entry.month) == ("default", "unknown", "2030-01")
    assert (entry.kind, entry.gpus, entry.gpu_seconds) == ("a100", 2, 7200)


def test_it_is_entered_from_its_claim_on_though_it_started_later() -> None:
    before = claimed(t4=0.5)
    running = lifecycle.started(before, 1, LATER, LATER)
    assert ledger(before, running) == []
    (entry,) = ledger(running, finished(running))
    assert entry.gpu_seconds == 1800


def test_every_machine_counts() -> None:
    before = claimed(h100=8)
    before = before.evolve(spec=before.spec.evolve(replicas=3))
    (entry,) = ledger(before, finished(before))
    assert entry.gpus == 24


def test_what_has_no_gpus_is_not_entered() -> None:
    for before in (claimed(cpu=4, memory=1e9), claimed(), claimed(v5litepod=8)):
        assert ledger(before, finished(before)) == []


def test_what_does_not_end_an_attempt_is_not_entered() -> None:
    job = claimed(gpu=1)
    waiting = lifecycle.enqueued(draft(job.spec), "default", 1, "ann", START)
    over = finished(job, Outcome.STOPPED)
    for before, after in (
        (waiting, job),
        (over, lifecycle.reset(over, "ann", LATER)),
        (over, lifecycle.enqueued(over, "default", 2, "ann", LATER)),
        (job, lifecycle.adopted(job, 1, "w", "z" * 16, LATER)),
    ):
        assert ledger(before, after) == []


def test_an_attempt_that_was_given_up_and_goes_on_counts_once() -> None:
    entries = []
    job = claimed(gpu=1)
    for step, session in enumerate(["y" * 16, "z" * 16], 1):
        lost = lifecycle.lost(job, 1, LOST, START + step * HOUR)
        again = lifecycle.adopted(lost, 1, "w", session, START + step * HOUR + HOUR / 2)
        entries += ledger(job, lost) + ledger(lost, again)
        job = again
    entries += ledger(job, lifecycle.finished(job, 1, Outcome.COMPLETED, EXITED, START + 4 * HOUR))
    assert [entry.gpu_seconds for entry in entries] == [3600, -3600, 7200, -7200, 4 * 3600]
    assert len({entry.id for entry in entries}) == 5


def test_the_month_is_of_the_end_and_of_utc() -> None:
    eve = START.replace(year=2026, month=1, day=31, hour=23)
    job = claimed(gpu=1)
    (entry,) = ledger(job, lifecycle.finished(job, 1, Outcome.FAILED, EXITED, eve + 2 * HOUR))
    assert entry.month == "2026-02"
    assert month_of(eve) == "2026-01"


def test_a_refusal_names_the_quota_what_there_is_what_was_asked_and_the_remedy() -> None:
    queued = Excess(Whose("vision"), "queued", 100, 95, 10).refusal()
    assert queued.detail == (
        "Project vision has 95 of 100 jobs queued; this asks for 10 jobs more, "
        "and the quota queued is 100."
    )
    assert queued.remedy.endswith("raise the quota: xmcloud project quota vision --queued N")
    mine = Excess(Whose("vision", "ada@x.org"), "running", 2, 2, 1)
    assert str(mine) == "ada@x.org runs 2 of 2 jobs in project vision"
    assert mine.refusal().detail.endswith("asks for 1 job more, and the quota running is 2.")
    assert mine.remedy.endswith("xmcloud project quota vision --running N --person")
    hours = Excess(Whose("vision"), "gpu_hours", 100, 101.26, 3, "2026-11")
    assert str(hours) == "project vision has used 101.3 of 100 GPU-hours of 2026-11"
    assert "3 jobs with GPUs more" in hours.refusal().detail
