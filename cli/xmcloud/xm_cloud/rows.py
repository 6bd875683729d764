"""How a job is shown: its parameters, how long it ran, what came of it."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pydantic import JsonValue

from xmcloud.core.arguments import render
from xmcloud.core.models import Job, JobState
from xmcloud.xm_cloud import times

LONGEST = 60


def label(job: Job) -> str:
    """The unit, and which of its jobs when it has several."""
    return f"{job.unit} {job.name}" if job.group else str(job.unit)


def parameters(job: Job) -> str:
    """Flags as `name=value`, positional arguments as they are."""
    words = []
    for argument in job.spec.arguments:
        if argument.name is None:
            words += render([argument])
        elif argument.value is not None:
            words.append(f"{argument.name}={short(argument.value)}")
    return " ".join(words)


def short(value: JsonValue) -> str:
    """A value in a few characters; numbers with four significant digits."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 or value != int(value) else f"{value:g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def duration(job: Job, now: datetime | None = None) -> str:
    """How long the newest attempt ran; empty before it began."""
    if not job.attempts or (began := job.attempts[-1].started_at) is None:
        return ""
    over = job.attempts[-1].finished_at or now or datetime.now(UTC)
    return times.duration((over - began).total_seconds())


def results(job: Job) -> str:
    return " ".join(f"{name}={short(value)}" for name, value in told(job).items())


def told(job: Job) -> dict[str, JsonValue]:
    """Results by name: of a recorded run its summary and the last of each series, no digests."""
    found: dict[str, JsonValue] = {}
    for name, value in job.results.items():
        if name in ("summary", "series") and isinstance(value, dict):
            for part, of_it in value.items():
                found[part] = of_it.get("last") if isinstance(of_it, dict) else of_it
        elif name not in ("blobs", "inputs", "cut", "whole"):
            found[name] = value
    return found


def outcome(job: Job) -> str:
    """The state, and why where that asks for a reason."""
    if job.state in (JobState.FAILED, JobState.STOPPED):
        return f"{job.state}: {job.reason.message}"
    return job.state.value


def summary(jobs: Iterable[Job]) -> str:
    """`3 running, 1 failed`, in the order of a job's life."""
    counts = Counter(job.state for job in jobs)
    return ", ".join(f"{counts[state]} {state}" for state in JobState if counts[state])


def final_table(jobs: Sequence[Job]) -> list[list[str]]:
    """A heading and a row a job, with a column for each result."""
    results = [told(job) for job in jobs]
    names = list(dict.fromkeys(name for each in results for name in each))
    rows = [["unit", "parameters", *names, "duration", "status"]]
    for job, each in zip(jobs, results, strict=True):
        values = [short(each[name]) if name in each else "" for name in names]
        rows.append([label(job), parameters(job), *values, duration(job), outcome(job)])
    return rows
