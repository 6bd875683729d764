"""Steps one after the other, each with its time, and a table of what came of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import click

from xmcloud.cli.tables import print_table
from xmcloud.core.errors import XmcloudError

_COLUMNS = ("step", "", "seconds", "what was seen, or what to do")


class Failed(Exception):
    """A step did not work. `remedy` is '' where the detail says it, or the step does."""

    def __init__(self, detail: str, remedy: str = "") -> None:
        super().__init__(detail)
        self.detail, self.remedy = detail, remedy


@dataclass(frozen=True, slots=True)
class Step:
    """Something to try; `run` returns what was seen. The remedy is what to do if it fails."""

    name: str
    run: Callable[[], str]
    remedy: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a step; without `ok` it was not tried, since one before it failed."""

    name: str
    ok: bool | None = None
    seconds: float = 0.0
    detail: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        if self.ok is None:
            return self.name, "not tried", "", ""
        return self.name, "ok" if self.ok else "FAILED", f"{self.seconds:.1f}", self.detail


def try_all(steps: Sequence[Step]) -> list[Tried]:
    """In their order, up to the first that fails; each is told when it is done."""
    tried = [Tried(step.name) for step in steps]
    for place, step in enumerate(steps):
        tried[place] = _tried(step)
        click.echo(" ".join(filter(None, [*tried[place].row[:2], tried[place].row[2]])) + " s")
        if not tried[place].ok:
            break
    return tried


def _tried(step: Step) -> Tried:
    began = time.monotonic()
    try:
        seen = Tried(step.name, True, detail=step.run())
    except (Failed, XmcloudError) as error:
        told = " ".join(filter(None, [error.detail, error.remedy or step.remedy]))
        seen = Tried(step.name, False, detail=told)
    return replace(seen, seconds=time.monotonic() - began)


def show(tried: Sequence[Tried]) -> None:
    click.echo()
    print_table(_COLUMNS, [each.row for each in tried])


def until(seconds: float, pause: float = 1.0) -> Iterator[None]:
    """Tries: one at least, and others until the time is over."""
    end = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() + pause > end:
            return
        time.sleep(pause)
