"""Jobs that write all the time, so that a byte that is lost or comes twice shows."""

from tests.e2e.stack import until
from tests.faults.site import Site
from xmcloud.core.models import Job, Outcome


def counting(gate: str = "go", between: str = "echo end") -> str:
    """A traced job that counts until the gate opens."""
    told = 'echo "$XMCLOUD_JOB_ID $XMCLOUD_ATTEMPT {} $$" >> trace'
    count = f"n=0; until test -e {gate}; do n=$((n+1)); echo $n; sleep 0.02; done"
    return "; ".join([told.format("start"), count, between, told.format("end")])


def until_counted(site: Site, job: Job, further: int = 3) -> None:
    """So many more lines have come to the control plane."""
    before = site.output(job).count(b"\n")
    until(lambda: site.output(job).count(b"\n") >= before + further, "the job is heard counting")


def assert_counted(log: bytes, end: bytes = b"end\n") -> None:
    """No line is missing, none came twice."""
    assert log.endswith(end)
    lines = log.removesuffix(end).split()
    assert lines == [b"%d" % number for number in range(1, len(lines) + 1)]


def outcomes(job: Job) -> list[Outcome | None]:
    return [attempt.outcome for attempt in job.attempts]
