"""Makes the snapshot of a release again: `python -m tests.compatibility`, with its wheel there."""

import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from tests.compatibility.releases import OVER, SNAPSHOT, Release, Site, shell, unpacked
from tests.support.tars import tarfile
from xmcloud.local.home import Home

NOBODYS = {"pool": "elsewhere"}
"""No worker is of that pool."""


def fill(site: Site, release: Release) -> None:
    """A store with some of everything; its worker and control plane die in the middle."""
    plane = site.control_plane(release)
    worker = site.worker(release)
    _ended(site)
    _waiting(site)
    experiment = site.experiment("running")
    (running,) = site.submit(
        experiment,
        [shell("echo attempt $XMCLOUD_ATTEMPT; test $XMCLOUD_ATTEMPT -gt 1 || sleep 60")],
    )
    site.until(running, "running")
    for child in (worker, plane):
        child.send_signal(signal.SIGKILL)
        child.wait()


def _ended(site: Site) -> None:
    sweep = site.experiment("sweep", tags=["lr"], notes="Which rate?")
    script = 'echo "rate {}"; echo \'{{"loss": {}}}\' > "$XMCLOUD_RESULTS"'
    jobs = [shell(script.format(rate, rate), f"rate-{rate}") for rate in (0.1, 0.5)]
    ids = site.submit(sweep, *[[job] for job in jobs], [shell("echo no >&2; exit 3", "broken")])
    group = site.submit(
        site.experiment("group"), [shell("echo a", "server"), shell("echo b", "client")]
    )
    for job in (*ids, *group):
        site.until(job, *OVER)
    clone = {"title": "sweep again", "creator": "grace", "queue": None}
    site.call("POST", f"/experiments/{sweep}/clone", json=clone)


def _waiting(site: Site) -> None:
    site.call("POST", "/queues", json={"name": "nightly", "priority": 7})
    site.call("POST", "/queues/nightly/pause", json={"by": "ada"})
    night = site.experiment("night")
    site.submit(night, [shell("echo night", queue="nightly")])
    waiting = site.experiment("waiting")
    jobs = [[shell(f"echo {name}", name, spec=NOBODYS)] for name in ("first", "second", "third")]
    *_, third = site.submit(waiting, *jobs)
    site.call("POST", f"/jobs/{third}/move", json={"to": "front", "by": "ada"})
    site.submit(site.experiment("drafts"), [shell("echo draft", "draft", queue=None)])


def pack(home: Path, folder: Path) -> None:
    """Only what a control plane keeps, without journals and free pages."""
    kept = folder / "home"
    kept.mkdir()
    for name in ("store.db", "queue.db"):
        with closing(sqlite3.connect(home / name)) as connection:
            connection.execute("VACUUM INTO ?", (str(kept / name),))
    shutil.copytree(home / "blobs", kept / "blobs")
    shutil.copy(home / "token", kept / "token")
    with tarfile.open(SNAPSHOT, "w:xz") as tar:
        tar.add(kept, ".")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        release = unpacked(folder / "release")
        site = Site(Home(folder / "made" / "home"), folder / "cache")
        try:
            fill(site, release)
        finally:
            site.close()
        pack(site.home.path, folder)


if __name__ == "__main__":
    main()
