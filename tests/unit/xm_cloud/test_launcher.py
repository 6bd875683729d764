"""Scripts on disk, run in a process of their own, as `xmcloud launch` does."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.launcher import launch

RUN = "import sys; from xmcloud.xm_cloud.launcher import launch; launch(sys.argv[1], sys.argv[2:])"


def run(script: Path, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, str(script), *argv],
        capture_output=True,
        text=True,
        check=check,
        cwd="/",
    )


def write(folder: Path, **sources: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
    return folder / "launch.py"


def test_main_gets_the_command_line(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        launch="""
            import sys
            def main(argv):
                print(argv[1:], sys.argv[1:], argv[0] == sys.argv[0])
        """,
    )
    assert run(script, "--a=1 2", "-x").stdout == "['--a=1 2', '-x'] ['--a=1 2', '-x'] True\n"


def test_a_main_without_parameters(tmp_path: Path) -> None:
    assert run(write(tmp_path, launch="def main(): print('ran')\n")).stdout == "ran\n"


def test_a_coroutine_as_main(tmp_path: Path) -> None:
    script = write(tmp_path, launch="async def main(_): print('ran')\n")
    assert run(script).stdout == "ran\n"


@pytest.mark.parametrize("package", [False, True])
def test_neighbours_are_imported_in_every_way(tmp_path: Path, package: bool) -> None:
    script = write(
        tmp_path / "sweeps",
        one="NAME = 'one'",
        two="NAME = 'two'",
        three="NAME = 'three'",
        launch="""
            import one
            from . import two
            def main(_):
                from three import NAME
                from .one import NAME as again
                print(one.NAME, two.NAME, NAME, again)
        """,
    )
    if package:
        (tmp_path / "sweeps" / "__init__.py").touch()
    assert run(script).stdout == "one two three one\n"


def test_a_package_of_packages(tmp_path: Path) -> None:
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "__init__.py").write_text("NAME = 'outer'\n")
    script = write(
        tmp_path / "outer" / "inner",
        __init__="",
        launch="""
            from .. import NAME
            def main(_): print(NAME, __name__)
        """,
    )
    assert run(script).stdout == "outer outer.inner.launch\n"


def test_paths_belong_to_the_folder_of_the_script(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        launch="""
            from xmcloud import xm
            def main(_): print(xm.PythonContainer(xm.ModuleName("m"), "train").path)
        """,
    )
    assert run(script).stdout == f"{tmp_path}/train\n"


def test_what_guards_direct_runs_does_not_run(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        launch="""
            def main(_): print('main')
            if __name__ == "__main__":
                print('direct')
        """,
    )
    assert run(script).stdout == "main\n"


ABSL = """
    from absl import app, flags
    RATE = flags.DEFINE_float("rate", 0.1, "Learning rate.")
    def main(argv):
        print(RATE.value, argv[1:])
    if __name__ == "__main__":
        app.run(main)
"""


def test_absl_parses_the_flags_of_a_script_that_uses_it(tmp_path: Path) -> None:
    script = write(tmp_path, launch=ABSL)
    argv = ["--rate=0.5", "--xm_wrap_late_bindings", "--noxm_build_image_locally", "rest"]
    assert run(script, *argv).stdout == "0.5 ['rest']\n"


def test_absl_refuses_an_unknown_flag(tmp_path: Path) -> None:
    ended = run(write(tmp_path, launch=ABSL), "--rat=1", check=False)
    assert ended.returncode != 0
    assert "Unknown command line flag 'rat'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_other_scripts_accept_the_flags_of_the_launcher_too(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        launch="""
            import argparse
            def main(_):
                parser = argparse.ArgumentParser()
                parser.add_argument("--rate", type=float)
                print(parser.parse_args().rate)
        """,
    )
    argv = ["--xm_wrap_late_bindings", "--rate=2", "--xm_build_image_locally=false"]
    assert run(script, *argv).stdout == "2.0\n"


def test_what_main_raises_comes_through(tmp_path: Path) -> None:
    script = write(tmp_path, launch="def main(_): raise ZeroDivisionError('mine')\n")
    path, argv = sys.path[:], sys.argv[:]
    with pytest.raises(ZeroDivisionError, match="mine"):
        launch(str(script), [])
    assert (sys.path, sys.argv) == (path, argv)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("x = 1\n", "defines no main", id="no main"),
        pytest.param("main = 1\n", "defines no main", id="no function"),
    ],
)
def test_a_script_without_a_main_is_refused(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        launch(str(write(tmp_path, launch=source)), [])


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="It must be a Python file"):
        launch(str(tmp_path / "missing.py"), [])
