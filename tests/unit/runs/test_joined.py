"""The two lines in a process that a worker started."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from xmcloud.core.runs import POOL, for_anyone, for_its_process
from xmcloud.core.specs import Command, JobSpec, Limits
from xmcloud.runs.arguments import Argument, words

DICT = """
import sys, json
import xmcloud
run = xmcloud.init(title="x")
found = run.parameters({"lr": 0.1, "deep": None, "names": [None], "id": "1", "other": 5})
print(json.dumps([found, sys.argv[1:]]))
"""

PARSED = """
import argparse, json
import xmcloud
parser = argparse.ArgumentParser()
parser.add_argument("--flag", action="store_true")
parser.add_argument("--lr", type=float)
print(json.dumps(vars(parser.parse_args())))
xmcloud.init()
"""


def job(folder: Path, script: str, given: dict[str, Any], own: str = "", argv: Any = None) -> Any:
    """What the script prints as the process of a job with those arguments."""
    (folder / "script.py").write_text(script)
    arguments = [Argument(name, value) for name, value in given.items()]
    environment = {name: v for name, v in os.environ.items() if not name.startswith("XMCLOUD_")}
    environment |= {
        "XMCLOUD_JOB_ID": "a" * 16,
        "XMCLOUD_ARGUMENTS": json.dumps(arguments),
        "XMCLOUD_PARAMETERS": own,
        "XMCLOUD_HOME": str(folder / "home"),
        "XMCLOUD_RESULTS": str(folder / "results.json"),
        "TMPDIR": str(folder),
    }
    done = subprocess.run(
        [sys.executable, "script.py", *(words(arguments) if argv is None else argv)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_parameters_have_the_values_of_the_job_with_their_types(tmp_path: Path) -> None:
    edited = {"lr": 1.0, "deep": False, "names": [None, 1], "id": "2"}
    found, argv = job(tmp_path, DICT, edited, own="lr,deep,names,id")
    assert found == {**edited, "other": 5}
    assert type(found["lr"]) is float
    assert argv == []


def test_a_parser_gets_the_arguments_of_the_job(tmp_path: Path) -> None:
    assert job(tmp_path, PARSED, {"flag": False, "lr": 0.5}) == {"flag": False, "lr": 0.5}
    assert job(tmp_path, PARSED, {"flag": True, "lr": None}) == {"flag": True, "lr": None}


def test_another_program_that_the_job_starts_keeps_its_own_line(tmp_path: Path) -> None:
    found = job(tmp_path, PARSED, {"flag": False, "lr": 0.5}, argv=["--lr=7", "--flag"])
    assert found == {"flag": True, "lr": 7.0}


def test_results_are_left_where_the_worker_looks(tmp_path: Path) -> None:
    script = """
import json, os, pathlib, xmcloud
pathlib.Path(os.environ["XMCLOUD_RESULTS"]).write_text('{"own": 1}')
run = xmcloud.init()
run.log(loss=2.0)
run.log(loss=float("nan"))
run.log(loss=1.0)
run.summary["best"] = 1.0
run.summary.update(names=["a"])
print(json.dumps(1))
"""
    job(tmp_path, script, {})
    assert json.loads((tmp_path / "results.json").read_text()) == {
        "own": 1,
        "summary": {"best": 1.0, "names": ["a"]},
        "series": {"loss": {"last": 1.0, "min": 1.0, "max": 2.0, "count": 3}},
    }


def test_files_are_not_kept_where_nobody_takes_them(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"1")
    script = """
import json, io, sys, xmcloud
sys.stderr = said = io.StringIO()
run = xmcloud.init()
run.text("note", "x")
run.input("data", "data")
print(json.dumps(said.getvalue()))
"""
    said = "xmcloud: note is not stored: in a job, write it to a bucket\n"
    assert job(tmp_path, script, {}) == said
    results = json.loads((tmp_path / "results.json").read_text())
    assert results.keys() == {"inputs"}
    assert (results["inputs"]["data"]["size"], len(results["inputs"]["data"]["digest"])) == (1, 64)


def test_only_the_first_rank_leaves_results(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RANK", "1")
    script = """
import json, xmcloud
run = xmcloud.init()
run.log(loss=1)
run.summary["best"] = 1
print(json.dumps(run.parameters({"lr": 0.1})))
"""
    assert job(tmp_path, script, {"lr": 2.0}, own="lr") == {"lr": 2.0}
    assert not (tmp_path / "results.json").exists()


def test_nobody_else_takes_the_job_until_it_is_enqueued_again() -> None:
    limits = Limits(runtime_seconds=5, retries=2)
    spec = JobSpec(executable=Command(command=("true",)), limits=limits)
    mine = for_its_process(spec, "run-a")
    assert (mine.pool, mine.resources) == (POOL, {"run-a": 1})
    assert mine.limits.infrastructure_retries == 0
    assert (for_anyone(mine).pool, for_anyone(mine).resources) == ("", {})
    assert for_anyone(mine).limits == Limits()
    other = spec.evolve(pool="gpu", resources={"run-a": 1})
    assert for_anyone(other) == other
