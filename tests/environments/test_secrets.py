"""Credentials of an index: used, and nowhere to be read."""

import stat
from pathlib import Path

import pytest

from tests.environments.conftest import Steps, frozen, made
from tests.support.wheels import Index
from xmcloud.worker.environments import Listed
from xmcloud.worker.setup import SetupFailed

pytestmark = pytest.mark.anyio
PASSWORD = "s3cret-word"


@pytest.fixture(autouse=True)
def _private(index: Index) -> None:
    index.password = PASSWORD


def with_password(url: str) -> str:
    return url.replace("http://", f"http://user:{PASSWORD}@")


def leaks(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if PASSWORD.encode() in path.read_bytes()]


async def test_an_index_with_a_password(index: Index, steps: Steps, cache: Path) -> None:
    index.add("alpha")
    listed = Listed(f"--extra-index-url {with_password(index.url)}\nalpha\n")
    steps.environment["UV_DEFAULT_INDEX"] = f"{index.url}/nothing"
    assert frozen(await made(cache, listed, steps)) == ["alpha==1.0"]
    assert PASSWORD not in steps.log
    assert PASSWORD not in str(steps.argv)
    assert leaks(cache) == []


async def test_a_url_with_a_password(index: Index, steps: Steps, cache: Path) -> None:
    wheel = index.add("alpha")
    listed = Listed(f"alpha @ {with_password(index.wheel_url(wheel))}\n")
    assert frozen(await made(cache, listed, steps)) == [f"alpha @ {index.wheel_url(wheel)}"]
    assert PASSWORD not in steps.log
    assert leaks(cache) == []


async def test_nobody_else_reads_the_requirements_while_they_are_used(
    index: Index, steps: Steps, cache: Path
) -> None:
    steps.look = lambda: modes.update(mode(path) for path in requirements(cache))
    modes: set[int] = set()
    with pytest.raises(SetupFailed):
        await made(cache, Listed("missing\n"), steps)
    assert modes == {0o600}
    assert requirements(cache) == []


def requirements(folder: Path) -> list[Path]:
    return list(folder.rglob("requirements.txt"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
