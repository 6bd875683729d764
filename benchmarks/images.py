"""What it takes to find out that an image was built before."""

import hashlib
import os
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, median
from benchmarks.stack import Stack
from xmcloud import xm, xm_local
from xmcloud.xm_cloud.packaging.local_engine import find_engine
from xmcloud.xm_cloud.packaging.package import package

FILES, BYTES = 500, 100_000


def identical_build(stack: Stack, rounds: int = 7) -> list[Figure]:
    """Packages 50 MB of files again, after their image was built; nothing without an engine."""
    engine = find_engine(print)
    if engine is None:
        print("no Docker engine answers: builds are not measured")
        return []
    engine.close()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        spec = xm.Dockerfile(path=str(folder))
        samples = []
        for _ in range(rounds + 1):
            began = time.perf_counter()
            package(stack.client, [xm.Packageable(spec, xm_local.Local.Spec())])
            samples.append(time.perf_counter() - began)
        floor = _hashing(folder, rounds)
    return [
        Figure(
            "packaging 50 MB whose image was built before",
            median(samples[1:]) * 1e3,
            "ms",
            floor * 1e3,
            "reading and hashing the files",
            limit=1000,
        )
    ]


def _fill(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    for number in range(FILES):
        (folder / f"{number}.bin").write_bytes(os.urandom(BYTES))


def _hashing(folder: Path, rounds: int) -> float:
    samples = []
    for _ in range(rounds):
        began = time.perf_counter()
        digest = hashlib.sha256()
        for path in sorted(folder.iterdir()):
            digest.update(path.read_bytes())
        samples.append(time.perf_counter() - began)
    return median(samples)
