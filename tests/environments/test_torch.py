"""PyTorch's build, judged by what uv really installed."""

from pathlib import Path

import pytest

from tests.environments.conftest import Steps, frozen, made
from tests.support.wheels import Index
from xmcloud.worker.environments import Listed
from xmcloud.worker.setup import SetupFailed

pytestmark = pytest.mark.anyio


def add_torch(index: Index, version: str, cuda: str | None) -> None:
    facts = f"__version__ = '{version}'\ncuda: str | None = {cuda!r}\nhip: str | None = None\n"
    index.add("torch", version, files={"torch/__init__.py": "", "torch/version.py": facts})


def wanted(index: Index, requirement: str) -> Listed:
    """From an index that the requirements name: PyTorch's own is not on loopback."""
    return Listed(f"--index-url {index.url}\n{requirement}\n")


@pytest.mark.parametrize("version", ["2.9.0", "2.9.0+cpu"])
async def test_a_machine_with_cuda_refuses_a_build_without(
    index: Index, steps: Steps, cache: Path, version: str
) -> None:
    add_torch(index, version, None)
    index.add("model", needs=["torch"])
    for _ in range(2):
        with pytest.raises(SetupFailed, match=r"a build without CUDA.*ask for this one: torch==2"):
            await made(cache, wanted(index, "model"), steps, cuda="12.4")


async def test_a_build_that_only_says_so_in_its_version_is_one_without(
    index: Index, steps: Steps, cache: Path
) -> None:
    index.add("torch", "2.9.0+cpu", files={"torch/__init__.py": ""})
    with pytest.raises(SetupFailed, match="a build without CUDA"):
        await made(cache, wanted(index, "torch"), steps, cuda="12.4")


async def test_the_build_without_cuda_is_for_those_who_ask_for_it(
    index: Index, steps: Steps, cache: Path
) -> None:
    add_torch(index, "2.9.0+cpu", None)
    asked = wanted(index, "torch==2.9.0+cpu")
    assert frozen(await made(cache, asked, steps, cuda="12.4")) == ["torch==2.9.0+cpu"]


async def test_a_build_that_the_driver_cannot_run_is_refused(
    index: Index, steps: Steps, cache: Path
) -> None:
    add_torch(index, "2.9.0", "13.0")
    with pytest.raises(SetupFailed, match=r"CUDA 13\.0, and this machine's driver.*CUDA 12\.4"):
        await made(cache, wanted(index, "torch"), steps, cuda="12.4")


@pytest.mark.parametrize(("cuda", "built"), [("12.4", "12.8"), ("13.0", "12.8"), ("", None)])
async def test_a_build_for_the_machine_is_taken(
    index: Index, steps: Steps, cache: Path, cuda: str, built: str | None
) -> None:
    add_torch(index, "2.9.0", built)
    assert frozen(await made(cache, wanted(index, "torch"), steps, cuda)) == ["torch==2.9.0"]


async def test_another_driver_is_another_environment(
    index: Index, steps: Steps, cache: Path
) -> None:
    index.add("alpha")
    paths = [(await made(cache, wanted(index, "alpha"), steps, x)).path for x in ("", "12", "13")]
    assert len(set(paths)) == 3
