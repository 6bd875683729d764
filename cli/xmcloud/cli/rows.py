"""Experiments, jobs, queues and workers as rows of tables."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from xmcloud.cli.results import Results, brief
from xmcloud.cli.sparklines import size
from xmcloud.cli.tables import Cell, Span
from xmcloud.core.arguments import render
from xmcloud.core.builds import Build, BuildState
from xmcloud.core.models import Attempt, Execution, Job, JobState, ReasonCode, Session, Wanted
from xmcloud.core.protocol import Cause, ExperimentStatus, QueueStatus, TargetStatus
from xmcloud.core.runs import own_resource
from xmcloud.core.specs import Binary, Command, GitSource, Image, PythonSource
from xmcloud.xm_cloud.rows import parameters
from xmcloud.xm_cloud.times import age, duration, memory

if TYPE_CHECKING:
    from xmcloud.local.status import Part

_BYTES = {"memory", "ram", "disk", "tmp_space"}
SHORT = 8
"""Characters of an id that tables show; 40 bits tell any team's apart."""

STYLES = {
    JobState.DRAFT: "bright_black",
    JobState.BUILDING: "yellow",
    JobState.QUEUED: "yellow",
    JobState.STARTING: "cyan",
    JobState.RUNNING: "blue",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
    JobState.STOPPED: "magenta",
}

EXPERIMENTS = ("id", "title", "jobs", "creator", "created")
JOBS = ("unit", "job", "name", "state", "parameters", "worker", "duration", "detail")
WAITING = ("place", "job", "unit", "name", "queued")
ATTEMPTS = ("attempt", "worker", "outcome", "started", "duration", "reason")
QUEUES = ("queue", "priority", "waiting", "oldest", "state")
BUILDS = ("build", "image", "state", "by", "asked for", "duration", "detail")
TARGETS = ("target", "running", "limit", "refuses")
WORKERS = ("worker", "state", "pool", "queues", "gpus", "host", "last seen")
HELD = ("job", "unit", "name", "state", "duration", "gpus", "asked for")

PARTS = ("part", "state", "pid", "url", "uptime", "memory", "log")


def full_reference(job: Job) -> str:
    """What a command takes for this very job."""
    unit = f"{job.experiment_id[:SHORT]}/{job.unit}"
    return f"{unit}/{job.name}" if job.group else unit


def experiment_row(status: ExperimentStatus, now: datetime) -> list[Cell]:
    experiment = status.experiment
    return [
        experiment.id[:SHORT],
        experiment.title,
        state_counts(status.states),
        experiment.creator,
        age(experiment.created_at, now),
    ]


def state_counts(states: Mapping[JobState, int]) -> Cell:
    """`3 running, 1 failed`, in the order of a job's life."""
    spans: list[Span] = []
    for state in JobState:
        if count := states.get(state, 0):
            comma = [Span(", ")] if spans else []
            spans += [*comma, Span(f"{count} {state}", STYLES[state])]
    return spans or "no jobs"


def state_cell(job: Job) -> Cell:
    return [Span(job.state, STYLES[job.state]), *([Span(" (stopping)")] if job.stop else [])]


def job_row(
    job: Job, now: datetime, why_waiting: str = "", *, with_results: bool = True
) -> list[Cell]:
    waits = why_waiting and not job.state.active
    last = job.attempts[-1] if job.attempts else None
    return [
        str(job.unit),
        job.id[:SHORT],
        job.name,
        state_cell(job),
        _cut(parameters(job), 60),
        worker_of(job, last) if last else "",
        attempt_duration(last, now) if last else "",
        _cut(why_waiting, 80) if waits else detail(job, with_results=with_results),
    ]


def waits_because(cause: Cause, *, first: bool) -> str:
    """A sentence, and the remedy where there is one."""
    start = "Waits because" if first else "Besides,"
    remedy = f" {cause.remedy}" if cause.remedy else ""
    return f"{start} {first_line(cause.message).rstrip('.')}.{remedy}"


def detail(job: Job, *, with_results: bool = True) -> str:
    """The results of what completed, else why it is in a state that asks for a reason."""
    if job.state is JobState.COMPLETED:
        return _cut(brief(Results.of(job.results)), 60) if with_results else ""
    told = (ReasonCode.QUOTA, ReasonCode.OVERFLOWED, ReasonCode.SUBMITTED)
    ended = job.state in (JobState.FAILED, JobState.STOPPED)
    if ended or job.failures or job.losses or job.reason.code in told:
        return _cut(first_line(job.reason.message), 60)
    return ""


def attempt_duration(attempt: Attempt, now: datetime) -> str:
    start = attempt.started_at or attempt.claimed_at
    return duration(((attempt.finished_at or now) - start).total_seconds())


def worker_of(job: Job, attempt: Attempt) -> str:
    """Its name, or `itself` of a script that was started by hand and recorded."""
    return "itself" if attempt.worker == own_resource(job.experiment_id) else attempt.worker


def attempt_row(job: Job, attempt: Attempt, now: datetime) -> list[Cell]:
    return [
        str(attempt.fence),
        worker_of(job, attempt),
        attempt.outcome or "under way",
        age(attempt.started_at or attempt.claimed_at, now),
        attempt_duration(attempt, now),
        first_line(attempt.reason.message) if attempt.reason else "",
    ]


def waiting_row(place: int, job: Job, now: datetime) -> list[Cell]:
    return [
        str(place), job.id[:SHORT], full_reference(job), job.name, age(job.updated_at, now)
    ]  # fmt: skip


def queue_row(status: QueueStatus, now: datetime) -> list[Cell]:
    return [
        status.queue.name,
        str(status.queue.priority),
        str(status.waiting),
        age(status.oldest, now) if status.oldest else "",
        [Span("paused", "yellow")] if status.queue.paused else "open",
    ]


BUILD_STYLES = {
    BuildState.QUEUED: "yellow",
    BuildState.WORKING: "blue",
    BuildState.BUILT: "green",
    BuildState.FAILED: "red",
    BuildState.STOPPED: "magenta",
}


def build_row(build: Build, now: datetime) -> list[Cell]:
    end = build.updated_at if build.state.terminal else now
    step = f"{build.step}: " if build.step else ""
    return [
        build.id[:SHORT],
        build.spec.push_image_tag or build.spec.name,
        build_state(build),
        build.by,
        age(build.created_at, now),
        duration((end - build.created_at).total_seconds()),
        _cut(build.image or f"{step}{first_line(build.message)}", 80),
    ]


def build_state(build: Build) -> Cell:
    return [Span(build.state, BUILD_STYLES[build.state])]


def target_row(target: TargetStatus, now: datetime) -> list[Cell]:
    blocks = [
        f"{kind or 'jobs without accelerator'} for {duration((b.until - now).total_seconds())}: "
        f"{_cut(b.message, 60)}"
        for kind, b in target.blocks.items()
    ]
    return [target.name, str(target.running), str(target.limit), "; ".join(blocks)]


def worker_row(session: Session, running: int, now: datetime) -> list[Cell]:
    return [
        session.worker,
        worker_state(session, running),
        session.pool,
        ", ".join(session.queues),
        gpu_counts(session.gpus),
        session.host,
        age(session.renewed_at, now),
    ]


def worker_state(session: Session, running: int) -> Cell:
    """What people want of it comes before what it does."""
    slots = f"{running}/{session.slots}"
    match session.wanted:
        case Wanted.STOP:
            return [Span(f"stopping {slots}", "magenta")]
        case Wanted.DRAIN if running:
            return [Span(f"draining {slots}", "yellow")]
        case Wanted.DRAIN:
            return [Span("drained", "yellow")]
    if session.closed:
        return [Span(f"closed {slots}", "yellow")]
    return [Span(f"running {slots}", "blue")] if running else f"idle 0/{session.slots}"


def gpu_counts(gpus: Sequence[str]) -> str:
    """`2 x NVIDIA A100, NVIDIA T4`: of what was announced as `0 NVIDIA A100`."""
    models = Counter(gpu.lstrip("0123456789: ") or gpu for gpu in gpus)
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in models.items())


def held_row(job: Job, now: datetime) -> list[Cell]:
    last = job.attempts[-1]
    return [
        job.id[:SHORT],
        full_reference(job),
        job.name,
        state_cell(job),
        attempt_duration(last, now),
        ", ".join(gpu.split()[0] for gpu in last.execution.gpus) if last.execution else "",
        ", ".join(resource(name, amount) for name, amount in job.spec.resources.items()),
    ]


def resource(name: str, amount: float) -> str:
    """`4 cpu`, `1.2 GB memory`."""
    return f"{size(amount) if name in _BYTES else f'{amount:g}'} {name}"


def free_resources(session: Session, jobs: Sequence[Job]) -> str:
    """`memory 12 of 25 GB free`: what its jobs did not ask for."""
    told = []
    for name, total in session.resources.items():
        free = max(0.0, total - sum(job.spec.resources.get(name, 0.0) for job in jobs))
        shown = size if name in _BYTES else "{:g}".format
        told.append(f"{name} {shown(free)} of {shown(total)} free")
    return ", ".join(told)


def execution(told: Execution, packages: int | None) -> list[tuple[str, Cell]]:
    """What a worker really ran; `packages` is how many there were, if that is known."""
    count = "" if packages is None else f"{packages}, "
    return [
        ("Command", _cut(shlex.join(told.argv), 400)),
        ("Directory", told.directory),
        ("Code", told.code),
        ("Python", told.python),
        ("Packages", f"{count}sha256:{told.packages[:12]}" if told.packages else ""),
        ("Host", told.host),
        ("GPUs", ", ".join(told.gpus)),
    ]


def pool(job: Job) -> str:
    """Who runs it; with what comes next if nobody there does."""
    overflow = job.spec.overflow
    if overflow is None or job.overflowed:
        return job.pool or "any"
    after = duration(overflow.after_seconds)
    return f"{job.pool or 'any'}, after {after} {overflow.target}"


def remote(job: Job) -> list[tuple[str, Cell]]:
    """Where the platform shows the newest attempt, and what it printed."""
    last = job.attempts[-1].remote if job.attempts else None
    return [("Platform", last.url or last.name), ("Its log", last.log_url)] if last else []


def command_line(job: Job) -> str:
    """What runs, as one would type it."""
    executable = job.spec.executable
    match executable:
        case Command():
            start = list(executable.command)
        case PythonSource() | GitSource():
            start = list(executable.entrypoint)
        case Binary():
            start = [executable.name]
        case Image():
            start = [*executable.command] or [executable.image or f"build {executable.build}"]
    return _cut(shlex.join([*start, *render(job.spec.arguments)]), 200)


def instant(time: datetime, now: datetime) -> str:
    """`2026-03-01 14:05 (3 min ago)`, in the time zone of this machine."""
    return f"{time.astimezone():%Y-%m-%d %H:%M} ({age(time, now)})"


def part_row(part: "Part", now: datetime) -> list[Cell]:
    lives = part.state == "running"
    return [
        part.name,
        [Span(part.state, "green" if lives else "red")],
        str(part.pid),
        part.url or "",
        duration((now - part.started_at).total_seconds()) if lives else "",
        memory(part.memory_bytes) if lives else "",
        str(part.log),
    ]


def utc_now() -> datetime:
    return datetime.now(UTC)


def first_line(message: str) -> str:
    """Without the end of the log, which a failure quotes."""
    return message.partition("\n")[0]


def _cut(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
