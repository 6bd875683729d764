"""Reads a folder of outputs: what is stored whole, and what is known of it at a glance.

For the process beside a plain script, and for workers; whoever wrote the folder is not trusted.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from xmcloud.core.event_files import MARK, scalars
from xmcloud.core.outputs import INDEX, OWN, SUMMARY, Entry, entries, parsed
from xmcloud.core.series import NAMES, POINTS, Table, points
from xmcloud.xm_cloud.foreign_files import changed, content, opened, pieces, seen_here

FILES_LIMIT = 1000
"""Files that are stored of one run."""

FILE_LIMIT = 16 * 1024**3
"""Bytes of one: what a blob may have."""

_CLOCKS_SECONDS = 1.0
"""By which a file's time may lie before what was done first."""


@dataclass(slots=True)
class LeftBehind:
    """`files` are stored whole, by name; `notes` tell people what is not."""

    files: dict[str, Path] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _EventFile:
    path: Path
    folder: str


def left_behind(outputs: Path, places: Mapping[str, Path], stage: Path) -> LeftBehind:
    """What lies in the folder; series become two files below `stage`.

    `places` are the folders that event files may lie in: as the run sees them, and as they are
    here.
    """
    found = _Gathered(outputs.resolve())
    for run in found.runs:
        for entry in entries(content(run / INDEX)):
            found.take(run, entry, places)
        found.summarize(content(run / SUMMARY))
    found.take_all_else()
    try:
        found.write_series(stage)
    except OSError as error:
        found.notes.append(f"points are not recorded: {error}")
    return found.left()


class _Gathered:
    def __init__(self, outputs: Path) -> None:
        self._outputs = outputs
        own = outputs / OWN
        self._left = LeftBehind()
        self.runs = [Path(e.path) for e in self._listed(own) if e.is_dir(follow_symlinks=False)]
        self._summary: dict[str, Any] = {}
        self._inputs: dict[str, Any] = {}
        self._events: dict[Path, _EventFile] = {}
        self._table = Table()

    @property
    def notes(self) -> list[str]:
        return self._left.notes

    def take(self, run: Path, entry: Entry, places: Mapping[str, Path]) -> None:
        if entry.kind == "tensorboard":
            self._take_events(entry, places)
            return
        if entry.kind == "input":
            self._inputs[entry.name] = entry.about.get("is")
        file = entry.about.get("file")
        if isinstance(file, str) and file == os.path.basename(file):
            name = f"inputs/{entry.name}" if entry.kind == "input" else entry.name
            self._keep(name, run / file)

    def summarize(self, content: bytes) -> None:
        try:
            values = parsed(content or b"{}")
        except ValueError:
            return
        if isinstance(values, dict):
            self._summary |= values

    def take_all_else(self) -> None:
        """Files that were put there without the two lines."""
        for path in self._files(self._outputs, below=True):
            name = path.relative_to(self._outputs).as_posix()
            if path.name.startswith(MARK):
                self._events.setdefault(path, _EventFile(path, os.path.dirname(name)))
            elif name not in self._left.files:
                self._keep(name, path)

    def write_series(self, stage: Path) -> None:
        """First those that the run logged itself: it may have told TensorBoard the same."""
        with (stage / POINTS).open("wb") as file:
            for run in self.runs:
                self._append_points(file, run)
            logged = set(self._table.glance())
            for event_file in self._in_order():
                self._append_scalars(file, event_file, logged)
        names = self._table.names
        if names:
            (stage / NAMES).write_bytes(names)
            self._left.files |= {name: stage / name for name in (POINTS, NAMES)}

    def left(self) -> LeftBehind:
        series = self._table.glance()
        found = {"summary": self._summary, "series": series, "inputs": self._inputs}
        self._left.results = {name: values for name, values in found.items() if values}
        return self._left

    def _take_events(self, entry: Entry, places: Mapping[str, Path]) -> None:
        folder = seen_here(str(entry.about.get("folder")), places)
        if folder is None:
            why = "not within reach: write them below $XMCLOUD_OUTPUTS"
            self.notes.append(f"the event files of {entry.name} are {why}")
            return
        since = entry.about.get("since")
        if not isinstance(since, float):
            return
        for path in self._files(folder, below=bool(entry.about.get("below"))):
            if path.name.startswith(MARK) and changed(path) >= since - _CLOCKS_SECONDS:
                below = os.path.dirname(path.relative_to(folder).as_posix())
                self._events[path] = _EventFile(path, os.path.normpath(f"{entry.name}/{below}"))

    def _files(self, folder: Path, *, below: bool) -> Iterator[Path]:
        """All but ours; links are not followed."""
        waiting = [folder]
        while waiting:
            for entry in self._listed(waiting.pop()):
                if entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
                elif below and entry.name != OWN and entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))

    def _listed(self, folder: Path) -> list["os.DirEntry[str]"]:
        try:
            with os.scandir(folder) as found:
                return sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.notes.append(f"what is below {folder.name} is not stored: {error.strerror}")
            return []

    def _in_order(self) -> list[_EventFile]:
        """With the folders that tell them apart alone."""
        found = sorted(self._events.values(), key=lambda each: (each.folder, each.path.name))
        for each in found:
            self._keep(os.path.normpath(f"tensorboard/{each.folder}/{each.path.name}"), each.path)
        folders = [f"/{each.folder}" for each in found]
        common = os.path.commonpath(folders) if found else ""
        return [
            _EventFile(each.path, os.path.relpath(folder, common))
            for each, folder in zip(found, folders, strict=True)
        ]

    def _append_points(self, file: BinaryIO, run: Path) -> None:
        try:
            with opened(run / POINTS) as source:
                logged = points(content(run / NAMES), pieces(source))
                file.writelines(map(self._table.record, logged))
        except FileNotFoundError:
            return
        except ValueError as error:
            self.notes.append(f"points of {run.name} are not recorded: {error}")

    def _append_scalars(self, file: BinaryIO, events: _EventFile, logged: set[str]) -> None:
        try:
            with opened(events.path) as source:
                for tag, step, value, at in scalars(source.read):
                    name = os.path.normpath(f"{events.folder}/{tag}")
                    if name not in logged:
                        file.write(self._table.record((name, step, value, at)))
        except FileNotFoundError:
            return

    def _keep(self, name: str, path: Path) -> None:
        why = "" if len(self._left.files) < FILES_LIMIT else f"{FILES_LIMIT} others are"
        try:
            status = path.lstat()
        except (OSError, ValueError) as error:
            why = str(error)
        else:
            if not stat.S_ISREG(status.st_mode):
                why = "it is no file"
            elif status.st_size > FILE_LIMIT:
                why = f"it has {status.st_size:,} bytes"
        if why:
            self.notes.append(f"{name} is not stored: {why}")
        else:
            self._left.files[name] = path
