"""Where a run begins. Standard library alone, and quick: it is a script's first line."""

import os
import threading

from xmcloud.runs import event_writers, joined, parsers
from xmcloud.runs.endings import Endings
from xmcloud.runs.facts import facts, files, modules
from xmcloud.runs.link import Link, say
from xmcloud.runs.run import Run
from xmcloud.runs.spool import Spool, new_place, remove
from xmcloud.runs.tee import Tee

MARK = "XMCLOUD_RUN"
"""The process that records; those that it starts are a part of the run."""

_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")

_runs: dict[int, Run] = {}
_starting = threading.Lock()


def start(title: str, project: str, output: bool) -> Run:
    """The run of this process; the same one when it is asked again."""
    with _starting:
        if os.getpid() not in _runs:
            _runs[os.getpid()] = _begin(title, project, output)
        return _runs[os.getpid()]


def _begin(title: str, project: str, output: bool) -> Run:
    ranks = (os.environ.get(name, "0") for name in _RANKS)
    is_part = MARK in os.environ or any(rank != "0" for rank in ranks)
    if "XMCLOUD_JOB_ID" in os.environ:
        return _joined(is_part)
    return Run() if is_part else _recorded(title, project, output)


def _recorded(title: str, project: str, output: bool) -> Run:
    place = new_place()
    spool = Spool(place)
    tee = _tee(spool) if output else None
    try:
        link = Link.open(facts(title, project, place, str(spool.output)))
    except OSError as error:
        say(f"this run is not recorded: {error}")
        remove(place)
        return Run()
    os.environ[MARK] = str(os.getpid())
    if tee is not None:
        tee.attach()
    run = Run(link, spool=spool)
    parsers.watch(None, run.parsed)
    event_writers.watch(run.writes_events)
    Endings(lambda *outcome: _end(link, place, *outcome))
    return run


def _tee(spool: Spool) -> Tee | None:
    """Made before there are threads: a high descriptor then costs nothing."""
    try:
        spool.made()
        return Tee(spool.output)
    except OSError as error:
        say(f"what is printed is not recorded: {error}")
        return None


def _joined(is_part: bool) -> Run:
    arguments = joined.arguments(os.environ)
    given = {each.name: each.value for each in arguments if each.name is not None}
    if is_part:
        return Run(given=given)
    os.environ[MARK] = str(os.getpid())
    outputs = os.environ.get("XMCLOUD_OUTPUTS", "")
    place = outputs or new_place()
    run = Run(given=given, spool=Spool(place), keeps=bool(outputs))
    event_writers.watch(run.writes_events)
    if not outputs:
        Endings(lambda *_: joined.leave_results(place, os.environ))
    return run


def _end(link: Link, spool: str, outcome: str, message: str, code: int | None) -> None:
    link.tell("imports", modules=modules(), files=files())
    link.tell("ended", outcome=outcome, message=message, exit_code=code)
    if link.goodbye():
        remove(spool)
