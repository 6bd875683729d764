"""Environments from requirements, made by the real uv."""

import asyncio
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from xmcloud.worker.environments import Environments, normalised

pytestmark = pytest.mark.anyio


class Steps:
    """Runs steps and remembers them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def __call__(self, name: str, argv: Sequence[str]) -> None:
        self.names.append(name)
        process = await asyncio.create_subprocess_exec(*argv, stderr=subprocess.DEVNULL)
        if await process.wait():
            raise OSError(name)


async def test_two_makers_make_one_and_a_later_start_needs_no_process(tmp_path: Path) -> None:
    steps = Steps()
    makers = [Environments(tmp_path), Environments(tmp_path)]
    folders = await asyncio.gather(*(maker.folder("", steps) for maker in makers))
    assert folders[0] == folders[1]
    assert steps.names == ["create the environment"]
    assert await Environments(tmp_path).folder("\n# nothing\n", steps) == folders[0]
    assert steps.names == ["create the environment"]
    assert printed_by(folders[0], "import sys; print(sys.prefix)") == str(folders[0])


async def test_one_that_failed_is_made_again(tmp_path: Path) -> None:
    environments, steps = Environments(tmp_path), Steps()
    bad = "./no-such-folder"
    for _ in range(2):
        with pytest.raises(OSError, match="install the requirements"):
            await environments.folder(bad, steps)
    assert steps.names == ["create the environment", "install the requirements"] * 2


async def test_one_whose_interpreter_is_gone_is_made_again(tmp_path: Path) -> None:
    environments, steps = Environments(tmp_path), Steps()
    folder = await environments.folder("", steps)
    (folder / "bin" / "python").unlink()
    assert await environments.folder("", steps) == folder
    assert (folder / "bin" / "python").exists()


async def test_different_requirements_are_different_environments(tmp_path: Path) -> None:
    wheel = tmp_path / "one-1.0-py3-none-any.whl"
    build_wheel(wheel)
    environments, steps = Environments(tmp_path), Steps()
    plain = await environments.folder("", steps)
    other = await environments.folder(f"{wheel}\n", steps)
    assert plain != other
    assert printed_by(other, "import one; print(one.__name__)") == "one"


def printed_by(environment: Path, program: str) -> str:
    run = [str(environment / "bin" / "python"), "-c", program]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()


def build_wheel(path: Path) -> None:
    info = "one-1.0.dist-info"
    files = {
        "one.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    names = [*files, f"{info}/RECORD"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a\nb\n", "b\na"),
        ("a # why\n\n# comment\n", "a"),
        ("  a  ", "a"),
        ("a\na", "a"),
    ],
)
def test_what_does_not_matter_does_not_count(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_a_fragment_is_no_comment() -> None:
    assert normalised("a @ https://host/a.whl#sha256=1") == "a @ https://host/a.whl#sha256=1\n"
