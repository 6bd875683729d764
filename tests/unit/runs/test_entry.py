"""How a script was started, as a command for other machines."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from xmcloud.runs.capture.entry import entry, folder_of, interpreter_flags
from xmcloud.runs.capture.local_code import local_code, needed, python_path
from xmcloud.runs.facts import Facts

PYTHON = sys.executable


def facts(directory: Path, *original: str, main: str = "", module: str = "") -> Facts:
    return Facts(
        title="",
        project="",
        pid=1,
        python="3.11.0",
        executable=PYTHON,
        directory=str(directory),
        main=main,
        module=module,
        arguments=[],
        original=[PYTHON, *original],
        path=[],
        spool="/nowhere",
        output="/nowhere/output",
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src/pkg").mkdir(parents=True)
    (tmp_path / "src/pkg/train.py").touch()
    return tmp_path


def test_a_script_runs_from_where_it_was_started(root: Path) -> None:
    here = facts(root / "src", "pkg/train.py", main="pkg/train.py")
    found = entry(here, root)
    assert (found.command, found.directory) == (("python", "pkg/train.py"), "src")
    absolute = facts(root, str(root / "src/pkg/train.py"), main=str(root / "src/pkg/train.py"))
    found = entry(absolute, root)
    assert (found.command, found.directory) == (("python", "src/pkg/train.py"), ".")
    assert folder_of(absolute) == root / "src/pkg"


def test_a_script_started_from_elsewhere_runs_at_the_root(root: Path, tmp_path: Path) -> None:
    path = str(root / "src/pkg/train.py")
    found = entry(facts(Path("/"), path, main=path), root)
    assert (found.command, found.directory) == (("python", "src/pkg/train.py"), ".")


def test_a_module_runs_as_one(root: Path) -> None:
    module = facts(root / "src", "-O", "-m", "pkg.train", main="x", module="pkg.train")
    assert entry(module, root).command == ("python", "-O", "-m", "pkg.train")
    assert folder_of(module) == root / "src"


def test_code_on_the_command_line_is_kept(root: Path) -> None:
    code = facts(root, "-c", "import xmcloud; xmcloud.init()", "a")
    assert entry(code, root).command == ("python", "-c", "import xmcloud; xmcloud.init()")


def test_a_command_of_a_package_is_called_as_it_would_call_itself(root: Path) -> None:
    script = str(Path(PYTHON).parent / "xmcloud")
    found = entry(facts(root, script, main=script), root)
    call = "import sys; from xmcloud.cli.main import main; sys.exit(main())"
    assert found.command == ("python", "-c", call)


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["s.py", "-x"], ()),
        (["-u", "-X", "dev", "-Werror", "-W", "error", "s.py", "-O"],
         ("-u", "-X", "dev", "-Werror", "-W", "error")),
        (["-I", "-m", "m"], ("-I",)),
        (["-c", "pass"], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_flags_of_the_interpreter_are_kept(words: list[str], flags: tuple[str, ...]) -> None:
    assert interpreter_flags(["python", *words]) == flags


def test_a_notebook_becomes_a_script(root: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!ls\n", "x = 1"]},
        {"cell_type": "code", "source": ["%%bash\n", "ls"]},
        {"cell_type": "code", "source": ["print(x)"]},
    ]
    (root / "src/study.ipynb").write_text(json.dumps({"cells": cells}))
    ran = replace(facts(root / "src"), notebook="study.ipynb", cells=["x = 1"])
    found = entry(ran, root)
    assert (found.command, found.directory) == (("python", "study.ipynb.py"), "src")
    expected = b"# %matplotlib inline\n# !ls\nx = 1\n\n# %%bash\n# ls\n\nprint(x)\n"
    assert found.added == {"src/study.ipynb.py": expected}
    unknown = replace(ran, notebook="", cells=["", "x = 1", "x"])
    assert entry(unknown, root).added == {"src/notebook.ipynb.py": b"x = 1\n\nx\n"}


def test_modules_from_other_folders_are_found_again(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for name in ("lib/__init__.py", "lib/deep/mod.py", "lib/data.json", "one.py", "two.py"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(name)
    files = {
        "__main__": str(root / "scripts/run.py"),
        "pkg.train": str(root / "src/pkg/train.py"),
        "helper": str(root / "scripts/helper.py"),
        "lib": str(outside / "lib/__init__.py"),
        "lib.deep.mod": str(outside / "lib/deep/mod.py"),
        "one": str(outside / "one.py"),
        "strange": str(outside / "other name.py"),
    }
    code = local_code(files, root, root / "scripts")
    assert code.folders == [root / "src"]
    assert code.carried == {
        name: outside / name
        for name in ("lib/__init__.py", "lib/data.json", "lib/deep/mod.py", "one.py")
    }
    assert python_path(code, root, root / "scripts") == "../src:../.xmcloud-local"


def test_of_xmcloud_only_what_the_two_lines_need_is_carried() -> None:
    recorded = ["xmcloud", "xmcloud.runs", "xmcloud.runs.link", "lib"]
    assert needed("xmcloud/__init__.py", recorded)
    assert needed("xmcloud/runs/__init__.py", recorded)
    assert needed("xmcloud/runs/link.py", recorded)
    assert needed("lib/other.py", recorded)
    assert not needed("xmcloud/runs/reporter.py", recorded)
    assert not needed("xmcloud/core/__init__.py", recorded)
    assert needed("xmcloud/core/specs.py", [*recorded, "xmcloud.core"])
