"""The folder of the control plane on this machine: its token, address, port and lock."""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from xmcloud.core.errors import Unauthorized, XmcloudError
from xmcloud.local.emulators import EmulatorAddresses

Profile = Literal["embedded", "emulators"]

_VARIABLES = TypeAdapter(dict[str, str])


@dataclass(frozen=True, slots=True)
class Control:
    """Where the control plane listens and what it stores in; present while it listens."""

    url: str
    profile: Profile
    rehearsed: bool = False

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


class UnusableHome(XmcloudError):
    """The folder cannot be made, or not be written to."""

    slug, title, status = "unusable-home", "The home folder is not usable", 422

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"The folder {path} cannot be used: {why}.",
            "Set XMCLOUD_HOME to a folder of your own on this machine's disk.",
        )


class Home:
    """The files that clients, workers and `xmcloud up` find each other by."""

    def __init__(self, path: Path) -> None:
        """Raises UnusableHome for a path that is no folder."""
        self.path = path.expanduser().absolute()
        if self.path.exists() and not self.path.is_dir():
            raise UnusableHome(self.path, "it is a file")

    def prepare(self) -> None:
        """Make the folder and the token.

        Raises UnusableHome, and Unauthorized for a token that others can read.
        """
        token = self.path / "token"
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            if not token.exists():
                self._make_token(token)
        except OSError as error:
            raise UnusableHome(self.path, os.strerror(error.errno or 0)) from error
        about = token.stat()
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise Unauthorized(
                f"The token in {token} is readable or owned by somebody else.",
                f"Keep it to yourself: chown $USER {token} && chmod 600 {token}; "
                f"or, if others may have seen it, remove it to get a new one.",
            )

    def control(self) -> Control | None:
        """None when nothing listens; a file that cannot be understood counts as none."""
        try:
            found = json.loads((self.path / "control.json").read_bytes())
            control = Control(found["url"], found["profile"], found.get("rehearsed") is True)
            return control if control.port else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def announce(self, control: Control) -> None:
        """Tell clients where the control plane listens, and keep its port for the next time."""
        self._write("port", str(control.port))
        self._write("control.json", json.dumps(asdict(control)))

    def withdraw(self) -> None:
        """Nothing listens any more: a token must not go to whoever takes the port next."""
        (self.path / "control.json").unlink(missing_ok=True)

    def last_port(self) -> int | None:
        """The port of the time before, so that addresses stay the same."""
        try:
            port = int((self.path / "port").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return port if 0 < port < 65536 else None

    def emulators(self) -> EmulatorAddresses | None:
        """Where the emulators were started the last time."""
        try:
            return EmulatorAddresses.model_validate_json(
                (self.path / "emulators.json").read_bytes()
            )
        except (FileNotFoundError, ValidationError):
            return None

    def keep_emulators(self, addresses: EmulatorAddresses) -> None:
        self._write("emulators.json", addresses.model_dump_json())

    def rehearsal(self) -> dict[str, str] | None:
        """What the control plane has to know of the stand-ins that were started the last time."""
        try:
            return _VARIABLES.validate_json((self.path / "stand-ins.json").read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def keep_rehearsal(self, variables: dict[str, str]) -> None:
        self._write("stand-ins.json", json.dumps(variables))

    @contextmanager
    def locked(self, waiting: AbstractContextManager[None]) -> Iterator[None]:
        """Only one command starts or stops things at a time; others wait, inside `waiting`."""
        with (self.path / "up.lock").open("w") as file:
            with waiting:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_token(self, token: Path) -> None:
        # Linked when it is complete, so that no reader sees half of it.
        written = self._new_file("token", secrets.token_urlsafe(32))
        with suppress(FileExistsError):
            os.link(written, token)
        written.unlink()

    def _write(self, name: str, text: str) -> None:
        self._new_file(name, text).replace(self.path / name)

    def _new_file(self, name: str, text: str) -> Path:
        path = self.path / f".{name}.{secrets.token_hex(4)}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return path
