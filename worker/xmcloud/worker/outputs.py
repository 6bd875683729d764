"""What a job left behind is taken once its processes are over, however they ended."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from xmcloud.core.base import Json
from xmcloud.core.errors import XmcloudError
from xmcloud.core.outputs import fitting, unicode
from xmcloud.worker.aside import aside
from xmcloud.xm_cloud.left_behind import LeftBehind, left_behind

Store = Callable[[Path], Awaitable[str]]
"""Stores a file whole; its digest. Raises `XmcloudError` and OSError."""

HERE: Mapping[str, Path] = {"/": Path("/")}
"""Where the event files of a process may lie; of a container, below its own folder alone."""

_RESULTS: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, Json])


def in_container(shared: Path) -> Mapping[str, Path]:
    """The folder that a container sees as /xmcloud."""
    return {"/xmcloud": shared}


async def collect(
    outputs: Path,
    results: Mapping[str, JsonValue],
    store: Store,
    say: Callable[[str], None],
    places: Mapping[str, Path] = HERE,
    masked: Callable[[Mapping[str, JsonValue]], dict[str, JsonValue]] = dict,
) -> dict[str, JsonValue]:
    """The results, with a glance at what lies in the folder and the digests of what is stored.

    `masked` leaves the values of secrets out of what is told. `say` hears in a line of each thing
    that is not; nothing of it ends the attempt differently, and nothing but its cancellation is
    raised.
    """
    try:
        if not os.listdir(outputs):
            return masked(results)
        with TemporaryDirectory(prefix="outputs-", dir=outputs.parent.parent) as stage:
            left = await aside(lambda: left_behind(outputs, places, Path(stage)))
            for note in left.notes:
                say(note)
            found = masked({**results, **_checked(unicode(left.results), say)})
            if digests := await _stored(left, store, say):
                found["blobs"] = unicode(digests)
            return await _cut(found, Path(stage), store)
    except (OSError, XmcloudError) as error:
        say(f"what the job left behind is not recorded: {error}")
        return masked(results)


async def _stored(left: LeftBehind, store: Store, say: Callable[[str], None]) -> dict[str, Any]:
    digests = {}
    for name, path in left.files.items():
        try:
            digests[name] = await store(path)
        except (OSError, XmcloudError) as error:
            say(f"{name} is not stored: {error}")
    return digests


async def _cut(found: dict[str, JsonValue], stage: Path, store: Store) -> dict[str, JsonValue]:
    """What a job's results hold; all of it is stored if that is less."""
    fits = fitting(found)
    if fits == found:
        return fits
    whole = stage / "results.json"
    whole.write_text(json.dumps(found), encoding="utf-8")
    return fits | {"whole": await store(whole)}


def _checked(found: dict[str, Any], say: Callable[[str], None]) -> dict[str, JsonValue]:
    """Whoever wrote the folder may have written anything."""
    try:
        return _RESULTS.validate_python(found)
    except ValidationError as error:
        say(f"the glance at the outputs is not recorded: {error.errors()[0]['msg']}")
        return {}
