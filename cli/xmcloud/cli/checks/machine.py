"""The folders, disks and limits of this machine."""

import os
import platform
import resource
import stat
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from xmcloud.cli.checks.check import Check
from xmcloud.core.errors import XmcloudError
from xmcloud.local.home import UnusableHome
from xmcloud.worker.disk import Disk
from xmcloud.worker.eviction import Room
from xmcloud.worker.settings import WorkerSettings, load_settings
from xmcloud.xm_cloud.places import home as usual_home

_OPEN_FILES = 1024
_REFUSED = ("token", "login.json", "id-token.json")
_SECRETS = (*_REFUSED, "worker.json", "worker.env")


def machine_settings(environ: Mapping[str, str]) -> WorkerSettings:
    """A worker's here, or what they would be; a mistake in them is told elsewhere.

    Raises UnusableHome.
    """
    unknown = {"url": "http://unknown", "token": "unknown"}
    try:
        return load_settings(unknown, environ)
    except RuntimeError as error:  # the user behind a ~ is not known
        path = Path(environ.get("XMCLOUD_HOME", ""))
        raise UnusableHome(path, str(error).rstrip(".")) from error
    except (XmcloudError, OSError):
        cache = Path(environ.get("XMCLOUD_CACHE") or "~/.cache/xmcloud").expanduser()
        places = {"home": usual_home(environ).absolute(), "cache": cache.absolute()}
        return WorkerSettings.model_validate({**unknown, **places, "name": "unknown"})


def check_versions() -> Iterator[Check]:
    yield Check.ok("xmcloud", f"{version('xmcloud')} on Python {platform.python_version()}")


def unwritable(folder: Path) -> str:
    """Why it cannot be written to, made first if need be; '' if it can."""
    there = existing(folder)
    if not there.is_dir():
        return f"{there} is a file."
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written to."


def existing(folder: Path) -> Path:
    """The folder, or the one in which it would be made."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def check_home(home: Path) -> Iterator[Check]:
    name = "Home"
    if problem := unwritable(home):
        yield Check.failed(name, problem, "Set XMCLOUD_HOME to a folder of your own.")
        return
    if not home.exists():
        yield Check.ok(name, f"{home} is made when it is needed")
        return
    about = home.stat()
    shared = stat.S_IMODE(about.st_mode) & 0o077
    if shared or about.st_uid != os.getuid():
        problem = f"{home} is open to others"
        yield Check.warning(name, problem, f"chown $USER {home} && chmod 700 {home}")
    else:
        yield Check.ok(name, f"{home}, yours alone")
    for file in _SECRETS:
        yield from _check_secret(home / file)


def _check_secret(path: Path) -> Iterator[Check]:
    try:
        about = path.stat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(about.st_mode)
    if mode & 0o077 or about.st_uid != os.getuid():
        what = f"{path} is readable or owned by somebody else (mode {mode:04o})"
        remedy = f"chown $USER {path} && chmod 600 {path}"
        # Everything refuses such a token; the others only may hold secrets.
        tell = Check.failed if path.name in _REFUSED else Check.warning
        yield tell(f"File {path.name}", what, remedy)


def check_disks(settings: WorkerSettings) -> Iterator[Check]:
    folders = {"Disk of the home": settings.home, "Disk of the cache": settings.cache}
    for name, folder in folders.items():
        there = existing(folder)
        if shortage := Disk([there], settings.disk_floor_bytes).shortage():
            detail = f"{shortage}, so workers take no job"
            yield Check.failed(name, detail, f"See what fills it: du -xh {there} | sort -h | tail")
        else:
            facts = os.statvfs(there)
            yield Check.ok(name, f"{facts.f_bavail * facts.f_frsize / 1e9:.1f} GB free")


def check_cache(settings: WorkerSettings) -> Iterator[Check]:
    name, cache, limit = "Cache", settings.cache, settings.cache_limit_bytes
    if problem := unwritable(cache):
        yield Check.failed(name, problem, "Set XMCLOUD_CACHE to a folder of your own.")
        return
    used = Room(cache, limit).used_bytes()
    detail = f"{cache} holds {used / 1e9:.1f} of at most {limit / 1e9:.1f} GB"
    if used > limit:
        remedy = f"It shrinks with a worker's next job, as far as it is not in use: {cache}"
        yield Check.warning(name, detail, remedy)
    else:
        yield Check.ok(name, detail)


def check_open_files() -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    name, detail = "Open files", f"at most {'unlimited' if soft == endless else soft} at once"
    if soft == endless or soft >= _OPEN_FILES:
        yield Check.ok(name, detail)
    elif hard == endless or hard >= _OPEN_FILES:
        yield Check.warning(name, f"{detail}, too few for many jobs", f"ulimit -n {_OPEN_FILES}")
    else:
        remedy = f"Raise the limit `nofile` in /etc/security/limits.conf to {_OPEN_FILES}."
        yield Check.warning(name, f"{detail}, too few for many jobs", remedy)
