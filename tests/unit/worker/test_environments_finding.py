"""What is installed for code without requirements of its own."""

from pathlib import Path

import pytest

from xmcloud.worker.environments import Listed, find
from xmcloud.worker.environments.wanted import (
    Found,
    Hashed,
    PoetryLock,
    PyLock,
    UvLock,
    repositories,
)
from xmcloud.worker.setup import SetupFailed

POETRY = '[metadata]\nlock-version = "2.1"\n'
POETRY_DIRECTORY = """
[[package]]
name = "x"
version = "1"
source = { type = "directory", url = "missing" }
[metadata]
lock-version = "2.1"
"""
UV = """
[[package]]
name = "x"
source = {{ {} }}
"""
PYLOCK = 'lock-version = "1.0"\n'
PROJECT = '[project]\nname = "x"\ndependencies = ["numpy>=2"]\n'


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def found_in(root: Path, files: dict[str, str], where: str = "a/b") -> Found:
    write(root, files)
    (root / where).mkdir(parents=True, exist_ok=True)
    return find(root / where, root)


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"a/b/train.py": ""}) == Listed("")


def test_the_nearest_requirements_count(tmp_path: Path) -> None:
    files = {"requirements.txt": "root", "a/requirements.txt": "near", "a/c/requirements.txt": "x"}
    assert found_in(tmp_path, files) == Listed("near\n")


def test_nothing_above_the_repository_counts(tmp_path: Path) -> None:
    write(tmp_path, {"requirements.txt": "outside", "uv.lock": "outside"})
    assert found_in(tmp_path / "root", {}) == Listed("")


def test_a_lock_counts_before_a_list_wherever_it_is(tmp_path: Path) -> None:
    files = {"a/b/requirements.txt": "near", "poetry.lock": POETRY}
    assert isinstance(found_in(tmp_path, files), PoetryLock)


def test_the_nearest_lock_counts(tmp_path: Path) -> None:
    files = {"uv.lock": "version = 1", "pyproject.toml": PROJECT, "a/pylock.toml": PYLOCK}
    assert isinstance(found_in(tmp_path, files), PyLock)


def test_of_several_locks_the_project_tools_come_first(tmp_path: Path) -> None:
    files = {
        "uv.lock": "version = 1",
        "poetry.lock": POETRY,
        "pylock.toml": PYLOCK,
        "requirements.lock": "a==1",
        "requirements.txt": "a==1 --hash=sha256:1",
        "pyproject.toml": PROJECT,
    }
    kinds = [type(found_in(tmp_path, files))]
    for name in list(files)[:-1]:
        (tmp_path / name).unlink()
        kinds.append(type(find(tmp_path, tmp_path)))
    assert kinds == [UvLock, PoetryLock, PyLock, Listed, Hashed, Listed]


def test_a_project_without_a_lock_has_its_dependencies(tmp_path: Path) -> None:
    files = {"pyproject.toml": PROJECT, "src/x/__init__.py": ""}
    assert found_in(tmp_path, files) == Listed("numpy>=2\n", code=(tmp_path / "src",))


def test_requirements_count_before_a_project(tmp_path: Path) -> None:
    files = {"a/b/pyproject.toml": PROJECT, "requirements.txt": "torch"}
    assert found_in(tmp_path, files) == Listed("torch\n")


def test_a_file_of_tool_settings_is_no_project(tmp_path: Path) -> None:
    files = {"a/pyproject.toml": "[tool.ruff]\n", "pyproject.toml": PROJECT}
    assert found_in(tmp_path, files) == Listed("numpy>=2\n", code=(tmp_path,))


def test_included_lists_and_constraints_are_read(tmp_path: Path) -> None:
    files = {
        "a/requirements.txt": "-r ../base.txt\n-c more/c.txt\ntorch # the framework\n",
        "base.txt": "numpy\n--requirement a/requirements.txt\n",
        "a/more/c.txt": "six<2\n",
    }
    assert found_in(tmp_path, files) == Listed("numpy\ntorch\n", "six<2\n")


@pytest.mark.parametrize("line", ["-e ./lib", "./lib", "--editable=./lib", "-e file:lib", "./lib/"])
def test_a_folder_of_the_checkout_is_imported_and_its_dependencies_installed(
    tmp_path: Path, line: str
) -> None:
    files = {"requirements.txt": f"{line}\n", "lib/pyproject.toml": PROJECT, "lib/src/x.py": ""}
    code = (tmp_path / "lib" / "src",)
    assert found_in(tmp_path, files, ".") == Listed("numpy>=2\n", code=code)


def test_extras_of_a_folder(tmp_path: Path) -> None:
    extras = '[project.optional-dependencies]\ndev = ["six"]\nall = ["x"]\n'
    files = {"requirements.txt": "-e .[dev]\n", "pyproject.toml": PROJECT + extras}
    assert found_in(tmp_path, files) == Listed("numpy>=2\nsix\n", code=(tmp_path,))


def test_a_list_elsewhere_is_left_to_uv(tmp_path: Path) -> None:
    lines = "-c https://example.com/c.txt\n-r https://example.com/r.txt\n"
    assert found_in(tmp_path, {"requirements.txt": lines}) == Listed(lines)


def test_a_link_to_the_working_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path, {"real/requirements.txt": "a", "real/a/b": ""})
    assert find(tmp_path / "real" / "a", tmp_path / "link") == Listed("a\n")


def test_an_editable_repository_is_a_repository(tmp_path: Path) -> None:
    files = {"requirements.txt": "-e git+https://example.com/x#egg=x\n"}
    assert found_in(tmp_path, files) == Listed("git+https://example.com/x#egg=x\n")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"requirements.txt": "-r missing.txt"}, r"There is no missing\.txt"),
        ({"requirements.txt": "-r ../../../etc/hostname"}, "lies outside of the repository"),
        ({"requirements.txt": "-e ../other"}, "lies outside of the repository"),
        ({"requirements.txt": "./x.whl", "x.whl": ""}, "not a folder of the repository"),
        ({"requirements.txt": "-e .", "setup.py": ""}, r"'requirements\.txt: -e \.'.*no pyproject"),
        ({"pyproject.toml": "["}, r"pyproject\.toml is not readable"),
        ({"uv.lock": UV.format("path = 'x.whl'"), "pyproject.toml": ""}, r"'x' at the path"),
        ({"uv.lock": UV.format("editable = '../x'"), "pyproject.toml": ""}, "uv.lock names a fol"),
        ({"poetry.lock": POETRY_DIRECTORY}, "poetry.lock names a folder that is not in the"),
        ({"uv.lock": "[", "pyproject.toml": ""}, r"uv\.lock is not readable"),
        ({"pyproject.toml": "[tool.poetry.dependencies]\nx = '*'"}, "Run `poetry lock`"),
        ({"pyproject.toml": "[project]\ndynamic = ['dependencies']"}, "does not list its dep"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    with pytest.raises(SetupFailed, match=problem):
        found_in(tmp_path / "root", files, ".")


def test_a_list_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes("numpy".encode("utf-16"))
    with pytest.raises(SetupFailed, match=r"requirements\.txt is not UTF-8"):
        find(tmp_path, tmp_path)


def test_the_repositories_in_locks_are_known(tmp_path: Path) -> None:
    uv = '[[package]]\nname = "x"\nsource = { git = "https://example.com/x?rev=1#2" }\n'
    pylock = '[[packages]]\nname = "y"\n[packages.vcs]\ntype = "git"\nurl = "ssh://git@host/y"\n'
    assert repositories(UvLock(tmp_path, uv)) == "git+https://example.com/x?rev=1#2\n"
    assert repositories(PyLock(pylock)) == "git+ssh://git@host/y\n"
    assert repositories(Listed("z @ git+https://host/z\n")) == "z @ git+https://host/z\n"
