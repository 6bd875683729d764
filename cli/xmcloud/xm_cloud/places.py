"""Where this machine keeps the address and the token of its control plane."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from xmcloud.core.errors import Unauthorized, Unavailable

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
START = "Start one with `xmcloud up`, or set XMCLOUD_URL and XMCLOUD_TOKEN."


@dataclass(frozen=True, slots=True)
class Address:
    """A control plane and the token that opens it."""

    url: str
    token: str = field(repr=False)


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the control plane of this machine keeps its files."""
    return Path(environ.get("XMCLOUD_HOME") or "~/.local/share/xmcloud").expanduser()


def address(environ: Mapping[str, str] = os.environ) -> Address:
    """The control plane to talk to: XMCLOUD_URL and XMCLOUD_TOKEN, else the one started here.

    Raises `Unavailable` if none is known and `Unauthorized` if its token is not, or is not safe.
    """
    token = environ.get("XMCLOUD_TOKEN", "")
    if url := environ.get("XMCLOUD_URL", ""):
        if not token:
            raise Unauthorized(f"XMCLOUD_URL is {url}, but XMCLOUD_TOKEN is not set.", "Set it.")
        return Address(_checked(url, "XMCLOUD_URL"), token)
    place = home(environ)
    return Address(_started_here(place / "control.json"), token or _token(place / "token"))


def on_this_machine(url: str) -> bool:
    """Whether a control plane listens on loopback, so that its pool `local` is this machine."""
    return urlsplit(url).hostname in LOOPBACK


def rehearsed(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the control plane to talk to was started here, with stand-ins for the cloud."""
    try:
        control = json.loads((home(environ) / "control.json").read_bytes())
        here, with_stand_ins = control["url"], control["rehearsed"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return with_stand_ins and environ.get("XMCLOUD_URL", "") in ("", here)


def _checked(url: str, source: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise Unavailable(
            f"{source} is {url!r}, which is no address of a control plane.",
            "It must begin with http:// or https://.",
        )
    return url.rstrip("/")


def _started_here(path: Path) -> str:
    try:
        url = json.loads(path.read_bytes())["url"]
    except FileNotFoundError:
        raise Unavailable("No control plane is known on this machine.", START) from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.", START) from None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{path} names no control plane.", f"Remove it. {START}") from None
    return _checked(str(url), str(path))


def _token(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            token = file.read().strip()
    except FileNotFoundError:
        raise Unauthorized(f"There is no token in {path}.", START) from None
    except OSError as error:
        raise Unauthorized(f"{path} cannot be read: {error.strerror}.", START) from None
    if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
        raise Unauthorized(
            f"The token in {path} is readable or owned by somebody else.",
            f"Make it yours alone: chown $USER {path}; chmod 600 {path}.",
        )
    return token
