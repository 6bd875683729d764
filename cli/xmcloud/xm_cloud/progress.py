"""Progress as a table that redraws itself, for terminals."""

from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from xmcloud.core.models import Job, JobState
from xmcloud.xm_cloud.rows import (
    duration,
    final_table,
    label,
    outcome,
    parameters,
    results,
    summary,
)

STYLES = {
    JobState.RUNNING: "cyan",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
    JobState.STOPPED: "magenta",
}
FINAL_STYLES = {**STYLES, JobState.COMPLETED: ""}


class LiveView:
    """A table of the units with their output above it; the results of all of them at the end."""

    def __init__(self, jobs: Sequence[Job], console: Console | None = None) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._console = console or Console(stderr=True)
        self._live = Live(
            console=self._console,
            get_renderable=self.now,
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self._console.print(self._final())

    def changed(self, job: Job) -> None:
        self._jobs[job.id] = job

    def printed(self, job: Job, lines: Sequence[str]) -> None:
        prefix = Text(f"[{label(job)}] ", style="dim")
        self._console.print(Text("\n").join(prefix + Text.from_ansi(line) for line in lines))

    def now(self) -> RenderableType:
        """What the terminal shows at this moment."""
        jobs = list(self._jobs.values())
        table = Table("unit", "parameters", "status", "duration", "results", box=None)
        for job in _most_interesting(jobs, max(3, self._console.height - 5)):
            cells = [label(job), parameters(job), outcome(job), duration(job), results(job)]
            table.add_row(*map(Text, cells), style=STYLES.get(job.state, "dim"))
        return Group(table, Text(summary(jobs), style="dim"))

    def _final(self) -> RenderableType:
        jobs = list(self._jobs.values())
        heading, *rows = final_table(jobs)
        table = Table(box=None)
        for name in heading:
            table.add_column(Text(name))
        for row, job in zip(rows, jobs, strict=True):
            table.add_row(*map(Text, row), style=FINAL_STYLES.get(job.state, ""))
        return Group(table, Text(summary(jobs), style="dim"))


def _most_interesting(jobs: list[Job], room: int) -> list[Job]:
    """As many as fit, in order: those under way first, then what ended last, then what waits."""
    if len(jobs) <= room:
        return jobs
    ranked = sorted(
        jobs,
        key=lambda job: (
            not job.state.active,
            not job.state.terminal,
            -job.updated_at.timestamp() if job.state.terminal else job.unit,
        ),
    )
    return sorted(ranked[:room], key=lambda job: (job.unit, job.position))
