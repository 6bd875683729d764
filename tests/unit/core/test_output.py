"""How the output of attempts is kept, and what reading it costs."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from tests.support.builders import spec, units
from tests.support.clock import ManualClock
from tests.support.planes import Rig, sqlite_rig
from xmcloud.adapters.files import FileBlobs
from xmcloud.core.control import experiments
from xmcloud.core.control.logs import keep_output, log_size, read_log
from xmcloud.core.protocol import NewExperiment
from xmcloud.core.worker_protocol import OUTPUT_BLOCK, OUTPUT_LIMIT, Output

pytestmark = pytest.mark.anyio


class Counted(FileBlobs):
    """Counts what is looked at."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.costs: Counter[str] = Counter()

    async def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        self.costs["get"] += 1
        return await super().get(key, start, end)

    async def list(
        self, prefix: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, int]]:
        found = await super().list(prefix, after, limit)
        self.costs["listed"] += len(found)
        return found


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = sqlite_rig(tmp_path, ManualClock())
    rig.plane = replace(rig.plane, blobs=Counted(tmp_path / "counted"))
    yield rig
    await rig.close()


@pytest.fixture
async def job(rig: Rig) -> str:
    experiment = await experiments.create_experiment(rig.plane, NewExperiment(title="x"), "key")
    (job,) = await experiments.add_units(rig.plane, experiment.id, units(spec()), "key")
    return job.id


async def keep(rig: Rig, job: str, offset: int, data: bytes) -> None:
    output = Output.model_construct(job_id=job, fence=1, offset=offset, data=data)
    await keep_output(rig.plane, output)


async def read(rig: Rig, job: str, offset: int = 0) -> bytes:
    return (await read_log(rig.plane, job, 1, offset, 0)).data


def some(length: int, start: int = 0) -> bytes:
    """Bytes that tell where they are."""
    return b"".join(n.to_bytes(4) for n in range(start // 4, (start + length) // 4 + 1))[:length]


async def test_output_in_pieces_of_any_size_is_read_from_any_byte(rig: Rig, job: str) -> None:
    whole = some(3 * OUTPUT_BLOCK + 100)
    cuts = [0, 1, 50, OUTPUT_BLOCK - 1, OUTPUT_BLOCK + 7, 3 * OUTPUT_BLOCK, len(whole)]
    for start, end in pairwise(cuts):
        await keep(rig, job, start, whole[start:end])
    for start in (*cuts, 49, OUTPUT_BLOCK, 2 * OUTPUT_BLOCK + 1, len(whole) + 5):
        assert await read(rig, job, start) == whole[start:]
    assert await log_size(rig.plane, job, 1) == len(whole)


async def test_at_most_so_much_is_read_at_once(rig: Rig, job: str) -> None:
    whole = some(OUTPUT_LIMIT)
    await keep(rig, job, 0, whole)
    await keep(rig, job, OUTPUT_LIMIT, b"more")
    assert await read(rig, job) == whole
    assert await read(rig, job, 2) == (whole + b"more")[2 : OUTPUT_LIMIT + 2]


async def test_pieces_that_overlap_are_read_once(rig: Rig, job: str) -> None:
    """As when what was sent again begins or ends elsewhere."""
    whole = some(400)
    for start, end in ((0, 100), (0, 60), (60, 90), (80, 300), (200, 250), (300, 400)):
        await keep(rig, job, start, whole[start:end])
    assert [await read(rig, job, start) for start in (0, 70, 260)] == [
        whole,
        whole[70:],
        whole[260:],
    ]
    assert await log_size(rig.plane, job, 1) == 400


async def test_what_comes_after_a_gap_does_not_count(rig: Rig, job: str) -> None:
    """Pieces are stored together, and one may have failed."""
    await keep(rig, job, 0, b"first")
    await keep(rig, job, 10, b"third")
    await keep(rig, job, OUTPUT_BLOCK, some(OUTPUT_BLOCK))
    assert await read(rig, job) == b"first"
    assert await log_size(rig.plane, job, 1) == 5


async def test_reading_costs_what_is_read(rig: Rig, job: str) -> None:
    """Not what the whole log has in pieces, of which there are many."""
    costs = cast(Counted, rig.plane.blobs).costs
    for start in range(0, 400, 4):
        await keep(rig, job, start, some(4, start))
    await keep(rig, job, 0, some(OUTPUT_BLOCK))
    await keep(rig, job, OUTPUT_BLOCK, some(OUTPUT_BLOCK, OUTPUT_BLOCK))
    end = 2 * OUTPUT_BLOCK
    await keep(rig, job, end, b"last")
    costs.clear()
    assert await read(rig, job) == some(end) + b"last"
    assert costs == {"get": 4, "listed": 1}
    costs.clear()
    assert await read(rig, job, end + 4) == b""
    assert costs == {"get": 1, "listed": 1}
