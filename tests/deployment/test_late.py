"""Adapters that are made when they are first used."""

import asyncio
import threading
from pathlib import Path

import pytest

from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.late import late
from xmcloud.core.ports import Blobs

pytestmark = pytest.mark.anyio


class Workshop:
    """Makes one adapter after another, of which the first `broken` fail."""

    def __init__(self, folder: Path, broken: int = 0) -> None:
        self.made: list[threading.Thread] = []
        self._folder = folder
        self._broken = broken

    def __call__(self) -> Blobs:
        self.made.append(threading.current_thread())
        if len(self.made) <= self._broken:
            raise ImportError("No module named 'google'")
        return FileBlobs(self._folder)


async def test_it_is_made_once_in_a_thread_when_it_is_used(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    blobs = late(workshop)
    assert workshop.made == []
    await asyncio.gather(*(blobs.put(name, name.encode()) for name in "abc"))
    assert await blobs.list("") == [("a", 1), ("b", 1), ("c", 1)]
    assert len(workshop.made) == 1
    assert workshop.made[0] is not threading.current_thread()


async def test_one_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    blobs = late(Workshop(tmp_path, broken=1))
    with pytest.raises(ImportError):
        await blobs.list("")
    assert await blobs.list("") == []


async def test_closing_makes_nothing(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    await late(workshop).close()
    assert workshop.made == []
