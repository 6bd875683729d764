"""The output of attempts, kept as blobs."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import JOBS
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job
from xmcloud.core.ports import Blobs
from xmcloud.core.protocol import LogSlice
from xmcloud.core.signals import woken
from xmcloud.core.worker_protocol import OUTPUT_BLOCK, OUTPUT_LIMIT, Output

_PIECES_AT_ONCE = 32


async def keep_output(plane: ControlPlane, output: Output) -> None:
    """Each block by itself. Raises `StorageFull`."""
    at, data = output.offset, output.data
    while data:
        length = OUTPUT_BLOCK - at % OUTPUT_BLOCK
        await _Log(plane.blobs, output.job_id, output.fence).put(at, data[:length])
        at, data = at + length, data[length:]


async def log_size(plane: ControlPlane, job: str, fence: int) -> int:
    """Bytes that are there of the output of an attempt, without a gap from its beginning."""
    return await _Log(plane.blobs, job, fence).size()


async def read_log(
    plane: ControlPlane, job_id: str, fence: int | None, offset: int, wait: float
) -> LogSlice:
    """Output of an attempt (the newest by default) from byte `offset` on, at most 1 MiB.

    Waits up to `wait` seconds while an open attempt has none. Raises `NotFound`.
    """
    deadline = plane.clock.now() + timedelta(seconds=wait)
    async with plane.signals.listen(f"job/{job_id}") as event:
        while True:
            job = (await JOBS.get(plane.store, job_id)).item
            shown = fence or job.fence
            data = await _Log(plane.blobs, job_id, shown).read(offset, offset + OUTPUT_LIMIT)
            left = (deadline - plane.clock.now()).total_seconds()
            over = not _may_grow(job, shown)
            if data or over or left <= 0:
                complete = over and len(data) < OUTPUT_LIMIT
                return LogSlice.model_construct(
                    fence=shown, offset=offset, data=data, complete=complete
                )
            await woken(event, min(left, plane.look_again.total_seconds()))


def _may_grow(job: Job, fence: int) -> bool:
    """The attempt is open, or the job has yet to begin the one that is asked for."""
    if job.attempt is not None:
        return job.attempt.fence == fence
    return not job.state.terminal and not job.attempts


@dataclass(frozen=True, slots=True)
class _Log:
    """The output of one attempt as blobs.

    A block that came whole is one blob; pieces of it, which may be many, are named by the offset
    they begin at. They may overlap, after one was sent again in another size. Reading costs as
    much as what is read: a whole block is found by its name, pieces in the list of their block.
    """

    blobs: Blobs
    job: str
    fence: int

    @property
    def _base(self) -> str:
        return f"logs/{self.job}/{self.fence}"

    async def put(self, at: int, data: bytes) -> None:
        block = at // OUTPUT_BLOCK
        key = self._whole(block) if len(data) == OUTPUT_BLOCK else f"{self._pieces(block)}{at:015d}"
        await self.blobs.put(key, data)

    async def size(self) -> int:
        end = 0
        for start, length in sorted(map(_extent, await self.blobs.list(f"{self._base}/"))):
            if start <= end:
                end = max(end, start + length)
        return end

    async def read(self, start: int, end: int) -> bytes:
        """What is there of these bytes, up to a gap."""
        parts: list[bytes] = []
        while start < end:
            stop = min(end, start - start % OUTPUT_BLOCK + OUTPUT_BLOCK)
            part = await self._read_in_block(start, stop)
            parts.append(part)
            if len(part) < stop - start:
                break
            start = stop
        return b"".join(parts)

    async def _read_in_block(self, start: int, end: int) -> bytes:
        block = start // OUTPUT_BLOCK
        first = block * OUTPUT_BLOCK
        with suppress(NotFound):
            return await self.blobs.get(self._whole(block), start - first, end - first)
        wanted: list[tuple[str, int, int]] = []
        for key, size in await self.blobs.list(self._pieces(block)):
            begins, _ = _extent((key, size))
            if begins > start or start >= end:
                break
            if begins + size > start:
                until = min(begins + size, end)
                wanted.append((key, start - begins, until - begins))
                start = until
        parts: list[bytes] = []
        for n in range(0, len(wanted), _PIECES_AT_ONCE):
            some = wanted[n : n + _PIECES_AT_ONCE]
            parts += await asyncio.gather(*(self.blobs.get(*each) for each in some))
        return b"".join(parts)

    def _whole(self, block: int) -> str:
        return f"{self._base}/{block:010d}-whole"

    def _pieces(self, block: int) -> str:
        return f"{self._base}/{block:010d}/"


def _extent(blob: tuple[str, int]) -> tuple[int, int]:
    """Where a blob begins in the log, and its length."""
    key, size = blob
    name = key.rpartition("/")[2]
    if name.endswith("-whole"):
        return int(name.removesuffix("-whole")) * OUTPUT_BLOCK, size
    return int(name), size
