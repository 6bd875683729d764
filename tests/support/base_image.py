"""The file system of a small Debian with Python, kept between runs; run as a module to make it."""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SUITE = "bookworm"
RECIPE = (
    "mmdebstrap",
    "--quiet",
    "--variant=minbase",
    "--include=ca-certificates,python-is-python3,python3-minimal,python3-pip,python3-venv",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    SUITE,
)


def cache_folder(environ: Mapping[str, str]) -> Path:
    caches = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "xmcloud-tests"


def base_tarball(folder: Path) -> Path:
    """The image's file system in this folder, made there by whoever comes first."""
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256("\0".join(RECIPE).encode()).hexdigest()[:16]
    tarball = folder / f"base-{key}.tar"
    with (folder / f"base-{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tarball.exists():
            unfinished = folder / f"unfinished-{key}.tar"
            done = subprocess.run([*RECIPE, str(unfinished)], capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode(errors="replace")
            unfinished.replace(tarball)
    return tarball


if __name__ == "__main__":
    sys.stdout.write(f"{base_tarball(cache_folder(os.environ))}\n")
