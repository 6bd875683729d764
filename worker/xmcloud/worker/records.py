"""What the keeper writes into the folder of an attempt, and what it leads to."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xmcloud.worker import family

PROCESS = "process.json"
EXIT = "exit.json"


class ProcessRecord(BaseModel):
    """The first process of an attempt."""

    model_config = ConfigDict(frozen=True)

    pid: int = Field(gt=1)
    created: float


class ExitRecord(BaseModel):
    """How the first process of an attempt ended."""

    model_config = ConfigDict(frozen=True)

    pid: int = Field(gt=1)
    code: int
    at: float


def exit_of(folder: Path) -> ExitRecord | None:
    """None if it did not end under a keeper's eyes."""
    try:
        return ExitRecord.model_validate_json((folder / EXIT).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def recorded(folder: Path) -> list[psutil.Process]:
    """The first process of an attempt and its descendants, if it still runs."""
    try:
        record = ProcessRecord.model_validate_json((folder / PROCESS).read_bytes())
    except (FileNotFoundError, ValidationError):
        return []
    return family.living(family.descendants_since(record.pid, record.created))


def left_of(folders: Iterable[Path], marks: Collection[Mapping[str, str]]) -> list[psutil.Process]:
    """What runs of attempts with those folders and marks."""
    found = [kin for folder in folders for kin in recorded(folder)]
    return family.living([*found, *family.carriers(marks)])
