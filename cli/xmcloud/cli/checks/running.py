"""Looks at many things at once, and waits for none of them longer than for the others."""

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Union

from xmcloud.cli.checks.check import Check, Verdict
from xmcloud.core.errors import XmcloudError

AGAIN = "Try again: xmcloud doctor"
REINSTALL = "pip install --force-reinstall xmcloud"

_MISHAPS = (OSError, ValueError, LookupError, RuntimeError, subprocess.SubprocessError)
"""What a machine that is not well makes of looking at it."""

Found = Union[Check, "Probe"]
Look = Callable[[], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class Probe:
    """Looks at something, in a thread of its own; may find that there is more to look at."""

    section: str
    name: str
    look: Look
    late: Verdict = Verdict.WARNING
    """What it means that it does not come to an end."""


@dataclass(slots=True, eq=False)
class _Looking:
    probe: Probe
    found: deque[Check] = field(default_factory=deque)
    more: int = 0
    over: bool = False


_News = SimpleQueue[tuple[_Looking, Found | None]]


def run(
    probes: Sequence[Probe], seconds: float, waits: Callable[[Sequence[str]], None]
) -> Iterator[tuple[str, Check]]:
    """Sections and checks, in the order of the probes and as early as that allows.

    `waits` is told for what, each time that there is nothing to tell.
    """
    deadline = time.monotonic() + seconds
    news: _News = SimpleQueue()
    looking = [_start(probe, news) for probe in probes]
    while looking:
        first = looking[0]
        while first.found:
            yield first.probe.section, first.found.popleft()
        if first.over:
            del looking[0]
            continue
        waits([each.probe.name for each in looking if not each.over])
        try:
            origin, found = news.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            yield from _late(looking, seconds)
            return
        if found is None:
            origin.over = True
        elif isinstance(found, Check):
            origin.found.append(found)
        else:
            origin.more += 1
            looking.insert(looking.index(origin) + origin.more, _start(found, news))


def _start(probe: Probe, news: _News) -> _Looking:
    looking = _Looking(probe)
    # No pool: what hangs for good must not keep the command from ending.
    threading.Thread(target=_look, args=(looking, news), name=probe.name, daemon=True).start()
    return looking


def _look(looking: _Looking, news: _News) -> None:
    probe = looking.probe
    try:
        for found in probe.look():
            news.put((looking, found))
    except XmcloudError as error:
        news.put((looking, Check.refused(probe.name, error)))
    except ImportError as error:
        detail = f"the installation of xmcloud is not whole: {error}"
        news.put((looking, Check.failed(probe.name, detail, REINSTALL)))
    except _MISHAPS as error:
        detail = f"cannot be looked at: {str(error) or type(error).__name__}"
        news.put((looking, Check.failed(probe.name, detail, AGAIN)))
    finally:
        news.put((looking, None))


def _late(looking: Sequence[_Looking], seconds: float) -> Iterator[tuple[str, Check]]:
    for each in looking:
        for check in each.found:
            yield each.probe.section, check
        if not each.over:
            detail = f"no answer within {seconds:g} s"
            yield (
                each.probe.section,
                Check(name=each.probe.name, verdict=each.probe.late, detail=detail, remedy=AGAIN),
            )
