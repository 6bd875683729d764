"""Lock files, installed as they say."""

import subprocess
from pathlib import Path

import pytest
import uv

from tests.environments.conftest import Checkout, Steps, frozen, made
from tests.git.authors import commit, new_repository
from tests.support.wheels import Index, sha256
from xmcloud.worker.environments import find, repositories
from xmcloud.worker.environments.wanted import Hashed, PoetryLock, PyLock, UvLock
from xmcloud.worker.setup import SetupFailed

pytestmark = pytest.mark.anyio

PROJECT = """
[project]
name = "demo"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["alpha>=1", "windows-only; sys_platform == 'win32'"]

[dependency-groups]
dev = ["checker"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""
LIBRARY = """
[project]
name = "alpha"
version = "1.0"

[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
import os, zipfile
def build_wheel(folder, *_):
    name, info = "alpha-1.0-py3-none-any.whl", "alpha-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: alpha\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
POETRY = """
[project]
name = "demo"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["alpha"]

[tool.poetry.group.docs]
optional = true
"""


@pytest.fixture(autouse=True)
def packages(index: Index) -> dict[str, Path]:
    """alpha needs beta; newer ones than the locks have come later."""
    names = ("beta", "checker", "windows-only", "extra", "docs-only")
    wheels = {name: index.add(name) for name in names}
    return {**wheels, "alpha": index.add("alpha", needs=["beta"])}


def newer(index: Index) -> None:
    index.add("alpha", "2.0", needs=["beta"])
    index.add("beta", "2.0")


def uv_lock(folder: Path, steps: Steps) -> None:
    lock = [uv.find_uv_bin(), "lock", "--quiet", "--project", str(folder)]
    subprocess.run(lock, check=True, env=steps.environment)


async def test_uv_lock_is_installed_as_it_stands(
    checkout: Checkout, steps: Steps, index: Index, cache: Path
) -> None:
    checkout.write(pyproject_toml=PROJECT, src__demo__train_py="")
    uv_lock(checkout.root, steps)
    newer(index)
    found = find(checkout.root / "src" / "demo", checkout.root)
    assert isinstance(found, UvLock)
    environment = await made(cache, found, steps)
    assert frozen(environment) == ["alpha==1.0", "beta==1.0", "checker==1.0"]
    assert environment.code == (checkout.root / "src",)
    assert steps.names[0] == "read uv.lock"


async def test_checkouts_with_one_lock_share_an_environment(
    checkout: Checkout, steps: Steps, cache: Path, tmp_path: Path
) -> None:
    checkout.write(pyproject_toml=PROJECT)
    uv_lock(checkout.root, steps)
    first = await made(cache, find(checkout.root, checkout.root), steps)
    other = checkout.root.rename(tmp_path / "elsewhere")
    (other / "pyproject.toml").write_text(PROJECT + "\n[tool.x]\ny = 1\n")
    second = await made(cache, find(other, other), steps)
    assert second.path == first.path
    assert steps.names.count("install the requirements") == 1
    assert left_in(cache) == []


def left_in(cache: Path) -> list[Path]:
    return list(cache.rglob("reading-*"))


async def test_a_member_of_a_workspace_gets_its_own_part(
    checkout: Checkout, steps: Steps, cache: Path
) -> None:
    root = '[tool.uv.workspace]\nmembers = ["packages/*"]\n'
    member = PROJECT.replace("demo", "member").replace("alpha", "extra")
    checkout.write(pyproject_toml=PROJECT + root, packages__member__pyproject_toml=member)
    uv_lock(checkout.root, steps)
    found = find(checkout.root / "packages" / "member", checkout.root)
    assert frozen(await made(cache, found, steps)) == ["checker==1.0", "extra==1.0"]


async def test_a_uv_lock_of_a_repository_has_its_commit(
    checkout: Checkout, steps: Steps, cache: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    locked = new_repository(library, {"pyproject.toml": LIBRARY, "backend.py": BACKEND})
    sources = f'[tool.uv.sources]\nalpha = {{ git = "file://{library}" }}\n'
    checkout.write(pyproject_toml=PROJECT + sources)
    uv_lock(checkout.root, steps)
    commit(library, {"more.py": ""})
    found = find(checkout.root, checkout.root)
    assert repositories(found) == f"git+file://{library}#{locked}\n"
    environment = await made(cache, found, steps)
    assert frozen(environment) == [f"alpha @ git+file://{library}@{locked}", "checker==1.0"]


async def test_a_uv_lock_needs_its_project(checkout: Checkout) -> None:
    checkout.write(uv_lock="version = 1\n")
    with pytest.raises(SetupFailed, match=r"uv\.lock has no pyproject\.toml beside it"):
        find(checkout.root, checkout.root)


async def test_a_file_with_another_hash_is_not_installed(
    checkout: Checkout, steps: Steps, index: Index, cache: Path
) -> None:
    checkout.write(pyproject_toml=PROJECT)
    uv_lock(checkout.root, steps)
    index.add("alpha", files={"alpha.py": "changed"})
    with pytest.raises(SetupFailed, match=r"(?s)install the requirements.*[Hh]ash mismatch"):
        await made(cache, find(checkout.root, checkout.root), steps)


def poetry_package(
    index: Index, wheel: Path, groups: str = '["main"]', more: str = "", digest: str = ""
) -> str:
    name, version = wheel.name.split("-")[:2]
    return f"""
[[package]]
name = "{name.replace("_", "-")}"
version = "{version}"
optional = {"true" if "extra ==" in more else "false"}
python-versions = "*"
groups = {groups}
files = [
    {{file = "{wheel.name}", hash = "{digest or sha256(wheel)}"}},
]
{more}

[package.source]
type = "legacy"
url = "{index.url}"
reference = "mine"
"""


METADATA = '[metadata]\nlock-version = "2.1"\npython-versions = "*"\ncontent-hash = "0"\n'


async def test_poetry_lock_is_installed_as_poetry_would(
    checkout: Checkout, steps: Steps, index: Index, cache: Path, packages: dict[str, Path]
) -> None:
    on_windows = 'sys_platform == \\"win32\\"'
    lock = [
        poetry_package(index, packages["alpha"]),
        poetry_package(
            index,
            packages["beta"],
            '["dev", "main"]',
            f'markers = {{main = "{on_windows}"}}',
        ),
        poetry_package(index, packages["windows-only"], more=f'markers = "{on_windows}"'),
        poetry_package(index, packages["checker"], '["dev"]'),
        poetry_package(index, packages["docs-only"], '["docs"]'),
        poetry_package(index, packages["extra"], more='markers = "extra == \\"fast\\""'),
    ]
    checkout.write(pyproject_toml=POETRY, poetry_lock="".join([*lock, METADATA]))
    newer(index)
    found = find(checkout.root, checkout.root)
    assert isinstance(found, PoetryLock)
    assert "extra" not in found.text.replace("--extra-index-url", "")
    environment = await made(cache, found, steps)
    assert frozen(environment) == ["alpha==1.0", "beta==1.0", "checker==1.0"]
    assert environment.code == (checkout.root,)


async def test_poetry_locks_are_complete(
    checkout: Checkout, steps: Steps, index: Index, cache: Path, packages: dict[str, Path]
) -> None:
    checkout.write(poetry_lock=poetry_package(index, packages["alpha"]) + METADATA)
    assert frozen(await made(cache, find(checkout.root, checkout.root), steps)) == ["alpha==1.0"]


async def test_poetry_finds_each_file_at_one_of_its_indexes(
    checkout: Checkout, steps: Steps, index: Index, cache: Path, packages: dict[str, Path]
) -> None:
    index.add("beta", "3.0", index="other")
    index.add("gamma", "3.0")
    gamma = index.add("gamma", index="other")
    other = poetry_package(index, gamma).replace(index.url, index.url.replace("simple", "other"))
    checkout.write(poetry_lock=poetry_package(index, packages["beta"]) + other + METADATA)
    environment = await made(cache, find(checkout.root, checkout.root), steps)
    assert frozen(environment) == ["beta==1.0", "gamma==1.0"]


async def test_poetry_installs_no_file_with_another_hash(
    checkout: Checkout, steps: Steps, index: Index, cache: Path, packages: dict[str, Path]
) -> None:
    package = poetry_package(index, packages["beta"], digest=f"sha256:{'0' * 64}")
    checkout.write(poetry_lock=package + METADATA)
    with pytest.raises(SetupFailed, match=r"(?s)install the requirements.*[Hh]ash"):
        await made(cache, find(checkout.root, checkout.root), steps)


async def test_poetry_packages_of_repositories_and_urls(checkout: Checkout) -> None:
    entry = '[[package]]\nname = "{}"\nversion = "1.0"\noptional = false\nfiles = []\n{}\n'
    git = """[package.source]
type = "git"
url = "https://example.com/x.git"
reference = "main"
resolved_reference = "0123456789012345678901234567890123456789"
subdirectory = "python"
"""
    url = '[package.source]\ntype = "url"\nurl = "https://example.com/y-1.0-py3-none-any.whl"\n'
    local = '[package.source]\ntype = "directory"\nurl = "libs/z"\n'
    text = entry.format("x", git) + entry.format("y", url) + entry.format("z", local) + METADATA
    checkout.write(poetry_lock=text, libs__z__src__z_py="")
    found = find(checkout.root, checkout.root)
    assert found == PoetryLock(
        "x @ git+https://example.com/x.git@0123456789012345678901234567890123456789"
        "#subdirectory=python\n"
        "y @ https://example.com/y-1.0-py3-none-any.whl\n",
        (checkout.root, checkout.root / "libs" / "z" / "src"),
    )


async def test_a_poetry_lock_that_does_not_say_enough_is_refused(checkout: Checkout) -> None:
    checkout.write(poetry_lock=METADATA.replace("2.1", "2.0"))
    with pytest.raises(SetupFailed, match=r"format 2\.0.*`poetry lock` with Poetry 2"):
        find(checkout.root, checkout.root)


async def test_a_poetry_lock_with_a_file_of_one_machine_is_refused(checkout: Checkout) -> None:
    entry = '[[package]]\nname = "x"\nversion = "1.0"\noptional = false\n'
    source = '[package.source]\ntype = "file"\nurl = "x-1.0.whl"\n'
    checkout.write(poetry_lock=entry + source + METADATA)
    with pytest.raises(SetupFailed, match=r"'x' from a file \(x-1\.0\.whl\)"):
        find(checkout.root, checkout.root)


def py_lock(index: Index, wheel: Path) -> str:
    name, version = wheel.name.split("-")[:2]
    digest = sha256(wheel).removeprefix("sha256:")
    return f"""
[[packages]]
name = "{name}"
version = "{version}"
wheels = [
  {{ name = "{wheel.name}", url = "{index.wheel_url(wheel)}", hashes = {{ sha256 = "{digest}" }} }},
]
"""


PY_LOCK = 'lock-version = "1.0"\ncreated-by = "pip"\n'
HERE = '\n[[packages]]\nname = "demo"\ndirectory = { path = "." }\n'


async def test_pylock_is_installed_but_for_the_project_itself(
    checkout: Checkout, steps: Steps, index: Index, cache: Path, packages: dict[str, Path]
) -> None:
    listed = [py_lock(index, packages["alpha"]), HERE, py_lock(index, packages["beta"])]
    checkout.write(pylock_toml="".join([PY_LOCK, *listed]), src__demo_py="")
    newer(index)
    found = find(checkout.root, checkout.root)
    assert isinstance(found, PyLock)
    environment = await made(cache, found, steps)
    assert frozen(environment) == ["alpha==1.0", "beta==1.0"]
    assert environment.code == (checkout.root / "src",)


async def test_a_pylock_with_a_file_of_one_machine_is_refused(checkout: Checkout) -> None:
    wheel = 'wheels = [{ name = "x-1.0-py3-none-any.whl", path = "x-1.0-py3-none-any.whl" }]'
    checkout.write(pylock_toml=f'{PY_LOCK}\n[[packages]]\nname = "x"\n{wheel}\n')
    with pytest.raises(SetupFailed, match=r"'x' at the path 'x-1\.0-py3"):
        find(checkout.root, checkout.root)


@pytest.mark.parametrize("name", ["requirements_lock", "requirements_txt"])
async def test_hashed_requirements_need_all_their_hashes(
    checkout: Checkout,
    steps: Steps,
    index: Index,
    cache: Path,
    packages: dict[str, Path],
    name: str,
) -> None:
    alpha = f"alpha==1.0 \\\n    --hash={sha256(packages['alpha'])}\n"
    beta = f"beta==1.0 \\\n    --hash={sha256(packages['beta'])}\n    # via alpha\n"
    newer(index)
    checkout.write(**{name: alpha + beta})
    found = find(checkout.root, checkout.root)
    assert isinstance(found, Hashed)
    assert frozen(await made(cache, found, steps)) == ["alpha==1.0", "beta==1.0"]
    checkout.write(**{name: alpha})
    with pytest.raises(SetupFailed, match=r"(?s)install the requirements.*hash"):
        await made(cache, find(checkout.root, checkout.root), steps)
