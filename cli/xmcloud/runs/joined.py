"""The side of the worker: the arguments of the job that this process runs."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from xmcloud.core.outputs import fitting
from xmcloud.runs import parsers
from xmcloud.runs.arguments import Argument, words
from xmcloud.runs.link import say
from xmcloud.runs.spool import remove

ARGUMENTS = "XMCLOUD_ARGUMENTS"
"""The job's arguments, as a JSON array of names and values; set by the worker."""

OWN_PARAMETERS = "XMCLOUD_PARAMETERS"
"""Names of those that no command line knows: `run.parameters` has them. Set by the capture."""

EVERYWHERE = {"/": Path("/")}
"""Event files may lie anywhere on the machine that the script itself runs on."""


def arguments(environ: Mapping[str, str]) -> list[Argument]:
    """Of the job; none outside of one."""
    return [Argument(*each) for each in json.loads(environ.get(ARGUMENTS) or "[]")]


def hand_over() -> None:
    """Gives the job's arguments to whatever parser reads the command line of this process."""
    given = arguments(os.environ)
    told = words(given)
    if not given or sys.argv[len(sys.argv) - len(told) :] != told:
        return
    own = os.environ.get(OWN_PARAMETERS, "").split(",")
    parsed = [argument for argument in given if argument.name not in own]
    sys.argv[len(sys.argv) - len(told) :] = words(parsed)
    parsers.watch(parsed, lambda _: None)


def leave_results(place: str, environ: Mapping[str, str]) -> None:
    """Where nobody takes outputs: the glance, beside what the script wrote as results itself."""
    from tempfile import TemporaryDirectory

    from xmcloud.xm_cloud.left_behind import left_behind

    file = environ.get("XMCLOUD_RESULTS")
    try:
        with TemporaryDirectory() as stage:
            found = left_behind(Path(place), EVERYWHERE, Path(stage)).results
        remove(place)
        if not found or not file:
            return
        path = Path(file)
        before = json.loads(path.read_bytes()) if path.exists() else {}
        path.write_text(json.dumps(fitting({**before, **found})), encoding="utf-8")
    except (OSError, ValueError) as error:
        say(f"the results of this run are not recorded: {error}")
