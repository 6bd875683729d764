"""Environments from requirements, made by the real uv and shared."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.wheels import build_wheel
from xmcloud.worker.disk import DiskFull
from xmcloud.worker.environments import Environment, Environments, Listed
from xmcloud.worker.environments.lines import normalised
from xmcloud.worker.eviction import try_lock
from xmcloud.worker.setup import SetupFailed, StepFailed

pytestmark = pytest.mark.anyio
NOTHING = Listed("")


class Steps:
    """Runs steps and remembers them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def __call__(self, name: str, argv: Sequence[str]) -> None:
        self.names.append(name)
        process = await asyncio.create_subprocess_exec(*argv, stderr=subprocess.PIPE)
        _, errors = await process.communicate()
        if process.returncode:
            raise StepFailed(name, "uv", process.returncode, errors.decode())


async def test_two_makers_make_one_and_a_later_start_needs_no_process(tmp_path: Path) -> None:
    steps = Steps()
    makers = [Environments(tmp_path), Environments(tmp_path)]
    made = await asyncio.gather(*(maker.environment(NOTHING, steps) for maker in makers))
    assert made[0] == made[1]
    assert steps.names == ["create the environment"]
    later = await Environments(tmp_path).environment(Listed("\n# nothing\n"), steps)
    assert later == made[0]
    assert steps.names == ["create the environment"]
    assert printed_by(later, "import sys; print(sys.prefix)") == str(later.path)


async def test_one_that_failed_is_made_again(tmp_path: Path) -> None:
    environments, steps = Environments(tmp_path), Steps()
    for _ in range(2):
        with pytest.raises(SetupFailed, match=r"(?s)Cannot install the requirements.*no-such"):
            await environments.environment(Listed("./no-such-folder"), steps)
        assert sorted(kinds(tmp_path / "environments")) == [".lock", ".used"]
    assert steps.names == ["create the environment", "install the requirements"] * 2


async def test_one_that_failed_is_leased_by_nobody(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed) as failed:
        await Environments(tmp_path).environment(NOTHING, Steps(), "3.99")
    assert failed.traceback
    assert [free(path) for path in (tmp_path / "environments").glob("*.used")] == [True]


async def test_one_whose_interpreter_is_gone_is_made_again(tmp_path: Path) -> None:
    environments, steps = Environments(tmp_path), Steps()
    made = await environments.environment(NOTHING, steps)
    (made.path / "bin" / "python").unlink()
    assert (await environments.environment(NOTHING, steps)).path == made.path
    assert (made.path / "bin" / "python").exists()


async def test_different_requirements_are_different_environments(tmp_path: Path) -> None:
    one = build_wheel(tmp_path, "one")
    environments, steps = Environments(tmp_path), Steps()
    plain = await environments.environment(NOTHING, steps)
    other = await environments.environment(Listed(f"{one}\n"), steps)
    assert plain.path != other.path
    assert plain.freeze == b""
    assert other.freeze == b"one==1.0\n"
    assert printed_by(other, "import one; print(one.__name__)") == "one"


async def test_constraints_are_no_requirements(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        build_wheel(tmp_path, "one", version)
    listed = f"--no-index\n--find-links {tmp_path}\none\n"
    environments, steps = Environments(tmp_path), Steps()
    older = await environments.environment(Listed(listed, "one<2\nnone==1\n"), steps)
    newer = await environments.environment(Listed(listed), steps)
    assert (older.freeze, newer.freeze) == (b"one==1.0\n", b"one==2.0\n")


async def test_it_says_its_python(tmp_path: Path) -> None:
    made = await Environments(tmp_path).environment(NOTHING, Steps())
    program = "import platform; print(platform.python_version())"
    assert made.python == printed_by(made, program)


async def test_a_version_of_python_that_the_worker_has_itself(tmp_path: Path) -> None:
    environments, steps = Environments(tmp_path), Steps()
    own = await environments.environment(NOTHING, steps)
    for asked in (own.python, own.python.rpartition(".")[0]):
        assert (await environments.environment(NOTHING, steps, asked)).path == own.path
    assert steps.names == ["create the environment"]


async def test_a_version_of_python_that_was_asked_for(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    environments, steps = Environments(tmp_path, str(other)), Steps()
    own = await environments.environment(NOTHING, steps)
    short = own.python.rpartition(".")[0]
    asked = await environments.environment(NOTHING, steps, short)
    assert asked.python.startswith(f"{short}.")
    assert asked.path != own.path
    assert (await environments.environment(NOTHING, steps, short)).path == asked.path
    assert steps.names == ["create the environment"] * 2


async def test_a_version_of_python_that_is_not_to_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"(?s)Python 3\.99 is neither.*uv python install 3\.99"):
        await Environments(tmp_path).environment(NOTHING, Steps(), "3.99")


@pytest.mark.parametrize("python", ["python3", "3", "/usr/bin/python3", ">=3.11", "3.12 "])
async def test_a_version_of_python_that_is_none_is_refused(tmp_path: Path, python: str) -> None:
    steps = Steps()
    with pytest.raises(SetupFailed, match=r"is no version of Python\. Write it as 3\.12"):
        await Environments(tmp_path).environment(NOTHING, steps, python)
    assert steps.names == []


async def test_a_full_disk_is_what_it_is(tmp_path: Path) -> None:
    async def full(name: str, argv: Sequence[str]) -> None:
        raise DiskFull("no space is left")

    with pytest.raises(DiskFull):
        await Environments(tmp_path).environment(NOTHING, full)


def kinds(folder: Path) -> list[str]:
    return [path.suffix for path in folder.iterdir()]


def free(lock: Path) -> bool:
    with lock.open() as file:
        return try_lock(file.fileno())


def printed_by(environment: Environment, program: str) -> str:
    run = [str(environment.path / "bin" / "python"), "-c", program]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a\nb\n", "b\na"),
        ("a # why\n\n# comment\n", "a"),
        ("  a  ", "a"),
        ("a\na", "a"),
        (
            "b==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\na",
            "a\nb==1 --hash=sha256:1 --hash=sha256:2",
        ),
    ],
)
def test_what_does_not_matter_does_not_count(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_a_fragment_is_no_comment() -> None:
    assert normalised("a @ https://host/a.whl#sha256=1") == "a @ https://host/a.whl#sha256=1\n"
