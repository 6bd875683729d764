"""The first line of a run: quick, quiet, and never what breaks a script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INIT = "import os, sys\nimport xmcloud\n{before}\nrun = {init}\n{after}\nprint('done')\n"


def script(
    folder: Path,
    before: str = "",
    after: str = "",
    init: str = "xmcloud.init()",
    printed: str = "done\n",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    environment = {name: v for name, v in os.environ.items() if not name.startswith("XMCLOUD_")}
    environment |= {"XMCLOUD_HOME": str(folder), "TMPDIR": str(folder), **variables}
    (folder / "script.py").write_text(INIT.format(before=before, init=init, after=after))
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == printed
    return done


@pytest.mark.parametrize(
    ("executable", "why"),
    [
        ("'/bin/false'", "its reporter could not be started"),
        ("''", "the path of the interpreter is not known"),
    ],
)
def test_a_reporter_that_cannot_start_is_said_in_a_line(
    tmp_path: Path, executable: str, why: str
) -> None:
    done = script(tmp_path, before=f"sys.executable = {executable}")
    assert done.stderr == f"xmcloud: this run is not recorded: {why}\n"


@pytest.mark.parametrize("variable", ["XMCLOUD_RUN", "RANK", "LOCAL_RANK", "SLURM_PROCID"])
def test_a_process_that_is_a_part_of_a_run_records_nothing(tmp_path: Path, variable: str) -> None:
    after = "run.log(loss=1)\nrun.artifact('a', 'nowhere')\nrun.summary['a'] = 1"
    done = script(tmp_path, after=after, **{variable: "3"})
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_the_script_has_no_child_and_one_run(tmp_path: Path) -> None:
    after = (
        "assert xmcloud.init() is run\n"
        "try: os.wait()\n"
        "except ChildProcessError: pass\n"
        "else: raise AssertionError\n"
        "assert os.environ['XMCLOUD_RUN'] == str(os.getpid())"
    )
    script(tmp_path, after=after)


def test_what_is_printed_is_kept_unless_it_is_not_wanted(tmp_path: Path) -> None:
    look = (
        "print('hello')\n"
        "from pathlib import Path\n"
        "found = [p.read_text() for p in Path(os.environ['TMPDIR']).glob('*/.xmcloud/*/output')]\n"
    )
    script(tmp_path, after=f"{look}assert found == ['hello\\n'], found", printed="hello\ndone\n")
    without = {"init": "xmcloud.init(output=False)", "printed": "hello\ndone\n"}
    script(tmp_path, after=f"{look}assert found == []", **without)


def test_nothing_is_left_of_a_run_that_nobody_takes(tmp_path: Path) -> None:
    done = script(tmp_path, after="run.log(loss=1)\nrun.text('note', 'x')")
    assert "No control plane is known" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
