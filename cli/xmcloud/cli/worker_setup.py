"""The files that `xmcloud worker init` leaves, and finds."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from xmcloud.cli.checks.check import Check
from xmcloud.core.base import Model
from xmcloud.core.errors import XmcloudError


class SetUp(Model):
    """What `init` found and left; `written` is false where a worker was set up before."""

    home: Path
    settings: dict[str, JsonValue]
    checks: list[Check] = []
    written: bool


class NotUsable(XmcloudError):
    """Something that was given does not work; nothing was written."""

    slug, title, status = "setup-not-usable", "The worker cannot be set up so", 422

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems), "Nothing was written.")


class SetUpBefore(XmcloudError):
    """The folder has a worker with other settings."""

    slug, title, status = "set-up-before", "A worker is set up there", 409

    def __init__(self, path: Path, differences: Sequence[str]) -> None:
        super().__init__(
            f"{path} is kept as it is, and differs: {'; '.join(differences)}.",
            "Edit it, or choose another folder with --home.",
        )


class OtherToken(XmcloudError):
    """The folder has another token."""

    slug, title, status = "other-token", "Another token is there", 409

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds another token, and is kept as it is.",
            "Choose another folder with --home, or remove the file if nothing needs it.",
        )


def present(home: Path) -> dict[str, JsonValue] | None:
    """The settings of the worker that was set up in that folder. Raises NotUsable."""
    path = home / "worker.json"
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise NotUsable([f"{path} cannot be read: {error}."]) from error
    if not isinstance(found, dict):
        raise NotUsable([f"{path} does not hold a JSON object."])
    return found


def compare(home: Path, there: dict[str, JsonValue], given: dict[str, JsonValue]) -> None:
    """Raises SetUpBefore where a setting that was given is another one there."""
    differences = [
        f"{name} is {json.dumps(there.get(name))} there, not {json.dumps(value)}"
        for name, value in given.items()
        if value is not None and there.get(name) != value
    ]
    if differences:
        raise SetUpBefore(home / "worker.json", differences)


def keep(home: Path, settings: dict[str, JsonValue], token: str | None) -> None:
    """Write the files, for their owner alone. Raises OtherToken and NotUsable."""
    path = home / "token"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            if token is not None:
                _write_new(path, f"{token}\n")
        except FileExistsError:
            if path.read_text(encoding="utf-8").strip() != token:
                raise OtherToken(path) from None
        _write_new(home / "worker.json", json.dumps(settings, indent=2) + "\n")
    except OSError as error:
        raise NotUsable([f"{error.filename} cannot be written: {error.strerror}."]) from error


def _write_new(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
