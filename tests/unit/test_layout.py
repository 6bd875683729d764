"""The shape of the tree: what a stray file would break without a word."""

import ast
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.imports import loaded_by

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("functions", "cli", "worker")
FOLDERS = {
    *SOURCE_ROOTS,
    "benchmarks",
    "docs",
    "examples",
    "infra",
    "requirements",
    "tests",
}
BUILT = {"build", "dist"}
PORTIONS = {
    *("core", "adapters", "functions"),
    *("xm", "xm_cloud", "xm_local", "cli", "local", "runs"),
    *("cloud", "contrib", "vizier"),
    "worker",
}
LANGUAGES = {".py", ".sh", ".tf", ".js", ".css", ".html"}
LONGEST = 450


def source_files() -> list[Path]:
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return [path for path in paths if path.suffix in LANGUAGES and not is_hidden(path)]


def is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(ROOT).parts)


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_one_root_has_a_module_at_the_top_of_the_package(root: str) -> None:
    """It adds the other roots to the package; a second one would hide them, others be outside."""
    files = [path.name for path in (ROOT / root / "xmcloud").iterdir() if path.is_file()]
    assert files == (["__init__.py"] if root == "cli" else [])


def test_the_package_spans_all_roots_for_whatever_asks() -> None:
    program = (
        "import importlib.util, xmcloud\n"
        "assert callable(xmcloud.init)\n"
        "found = importlib.util.find_spec('xmcloud').submodule_search_locations\n"
        "assert list(found) == list(xmcloud.__path__)\n"
        "import xmcloud.core, xmcloud.cli, xmcloud.worker\n"
        "print(*found)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert set(said.split()) == {str(ROOT / root / "xmcloud") for root in SOURCE_ROOTS}


def test_the_functions_source_needs_no_other_root() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'functions')!r})\n"
        "import xmcloud.core.errors\n"
        "assert not hasattr(xmcloud, 'init')"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def test_only_known_folders_stand_at_the_top() -> None:
    seen = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert seen - BUILT <= FOLDERS


def test_the_functions_source_holds_one_module_that_only_re_exports() -> None:
    modules = sorted((ROOT / "functions").glob("*.py"))
    assert [path.name for path in modules] == ["main.py"]
    docstring, *statements = ast.parse(modules[0].read_text()).body
    assert isinstance(docstring, ast.Expr)
    assert [ast.unparse(node) for node in statements if not re_exports(node)] == []


def re_exports(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and str(node.module).startswith("xmcloud.functions")
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def test_no_source_file_is_too_long() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in source_files()}
    too_long = {name for name, lines in lengths.items() if lines > LONGEST}
    # Lies in images all by itself.
    assert too_long <= {"cli/xmcloud/xm_cloud/packaging/container_entrypoint.py"}


def test_the_wheel_holds_every_portion_and_no_top_level_module(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    packed = {name for name in ZipFile(wheel).namelist() if not name.startswith("xmcloud-0")}
    expected = {
        path.relative_to(ROOT / root).as_posix()
        for root in SOURCE_ROOTS
        for path in (ROOT / root / "xmcloud").rglob("*")
        if path.is_file() and path.name[0] != "." and "__pycache__" not in path.parts
    }
    assert packed == expected
    assert {name.split("/")[1] for name in packed} == {*PORTIONS, "__init__.py"}


def test_starting_the_command_line_imports_nothing_slow() -> None:
    loaded = loaded_by("xmcloud.cli.main")
    assert "click" in loaded
    assert loaded & {"pydantic", "httpx", "rich", "google"} == set()


def test_the_two_lines_of_a_run_import_nothing_slow() -> None:
    """They are in people's scripts, and in jobs whose environment has nothing of ours."""
    light = {"xmcloud", *sys.stdlib_module_names}
    assert loaded_by("xmcloud.runs.starting") <= light
    assert loaded_by("xmcloud") <= light - {"subprocess", "json", "pathlib"}


def test_functions_run_where_they_were_copied_and_not_installed() -> None:
    """A function's folder has no distribution whose metadata could be asked for."""
    asking = [
        path.relative_to(ROOT)
        for path in (ROOT / "functions").rglob("*.py")
        if "importlib.metadata" in path.read_text("utf-8")
    ]
    assert asking == []
