"""Where this machine keeps the address and the token of its control plane."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from xmcloud.core.errors import Unauthorized, Unavailable
from xmcloud.xm_cloud.credentials.credentials import Behind, Credentials, Fixed
from xmcloud.xm_cloud.credentials.login import (
    Login,
    Method,
    credentials_of,
    own_identity,
    read_login,
)
from xmcloud.xm_cloud.credentials.private_files import read_private

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
START = "Start one with `xmcloud up`, or sign in to one: xmcloud login URL."


@dataclass(frozen=True, slots=True)
class Address:
    """A control plane, who one is there, and from where both are known."""

    url: str
    credentials: Credentials
    source: str = field(default="", compare=False)
    identity: str = field(default="", compare=False)


class Identity(NamedTuple):
    """Who one is at a control plane, and what proves it."""

    credentials: Credentials
    proof: str


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the control plane of this machine keeps its files."""
    return Path(environ.get("XMCLOUD_HOME") or "~/.local/share/xmcloud").expanduser()


def address(environ: Mapping[str, str] = os.environ) -> Address:
    """The control plane to talk to: that of XMCLOUD_URL, of `xmcloud login`, or the one here.

    Raises `Unavailable` if none is known and `Unauthorized` if no token is, or it is not safe.
    """
    folder = home(environ)
    login = read_login(folder)
    if url := environ.get("XMCLOUD_URL", ""):
        url, source = checked_url(url, "XMCLOUD_URL"), "XMCLOUD_URL"
    elif login is not None:
        url, source = login.url, "xmcloud login"
    else:
        return started_here(environ)
    own = [here] if (here := known_here(folder)) else []
    found = identity_for(url, folder, environ, own)
    if found is None:
        remedy = f"Set it, or sign in: xmcloud login {url}"
        raise Unauthorized(f"XMCLOUD_URL is {url}, but XMCLOUD_TOKEN is not set.", remedy)
    return Address(url, found.credentials, source, found.proof)


def started_here(environ: Mapping[str, str] = os.environ) -> Address:
    """The control plane of this machine. Raises as `address`."""
    folder = home(environ)
    url = _started_here(folder / "control.json")
    if token := environ.get("XMCLOUD_TOKEN", ""):
        return Address(url, Fixed(token), "xmcloud up", "XMCLOUD_TOKEN")
    return Address(url, Fixed(_token(folder / "token")), "xmcloud up", str(folder / "token"))


def named_elsewhere(environ: Mapping[str, str] = os.environ) -> str:
    """The control plane that commands go to in place of this machine's own; '' for none.

    Raises `Unauthorized` for a login that is not safe.
    """
    if url := environ.get("XMCLOUD_URL", ""):
        return url
    login = read_login(home(environ))
    return login.url if login else ""


def identity_for(
    url: str, folder: Path, environ: Mapping[str, str], own: Collection[str]
) -> Identity | None:
    """None if nothing proves anything there; `own` is what the token in the folder is for.

    Raises `Unauthorized`.
    """
    login = read_login(folder)
    here = login if login is not None and login.url == url else None
    if token := environ.get("XMCLOUD_TOKEN", ""):
        return Identity(_behind(Fixed(token), here, folder), "XMCLOUD_TOKEN")
    if here is not None:
        return Identity(credentials_of(here, folder), str(here))
    if url in own:
        return Identity(Fixed(_token(folder / "token")), str(folder / "token"))
    machine = own_identity(url, environ) if safe(url) else None
    return None if machine is None else Identity(credentials_of(machine, folder), str(machine))


def _behind(token: Fixed, login: Login | None, folder: Path) -> Credentials:
    if login is None or login.method is Method.TOKEN:
        return token
    return Behind(token, credentials_of(login, folder))


def safe(url: str) -> bool:
    """Whether nobody on the way reads what is sent."""
    return url.startswith("https://") or on_this_machine(url)


def current_project(environ: Mapping[str, str] = os.environ) -> str:
    """That of XMCLOUD_PROJECT, else the one chosen for the login; '' for none.

    Raises `Unauthorized` for a login that is not safe.
    """
    if project := environ.get("XMCLOUD_PROJECT", ""):
        return project
    login = read_login(home(environ))
    url = environ.get("XMCLOUD_URL", "").rstrip("/")
    return login.project if login is not None and url in ("", login.url) else ""


def on_this_machine(url: str) -> bool:
    """Whether a control plane listens on loopback, so that its pool `local` is this machine."""
    return urlsplit(url).hostname in LOOPBACK


def rehearsed(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the control plane to talk to was started here, with stand-ins for the cloud."""
    folder = home(environ)
    try:
        control = json.loads((folder / "control.json").read_bytes())
        here, with_stand_ins = control["url"], control["rehearsed"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return with_stand_ins and named_elsewhere(environ) in ("", here)


def checked_url(url: str, source: str) -> str:
    """Without a slash at its end. Raises `Unavailable` for what is no address."""
    if not url.startswith(("http://", "https://")):
        raise Unavailable(
            f"{source} is {url!r}, which is no address of a control plane.",
            "It must begin with http:// or https://.",
        )
    return url.rstrip("/")


def known_here(folder: Path) -> str:
    """The address of the control plane that was started here; '' for none."""
    try:
        return str(json.loads((folder / "control.json").read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _started_here(path: Path) -> str:
    try:
        url = json.loads(path.read_bytes())["url"]
    except FileNotFoundError:
        raise Unavailable("No control plane is known on this machine.", START) from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.", START) from None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{path} names no control plane.", f"Remove it. {START}") from None
    return checked_url(str(url), str(path))


def _token(path: Path) -> str:
    token = read_private(path)
    if token is None:
        raise Unauthorized(f"There is no token in {path}.", START)
    return token.strip()
