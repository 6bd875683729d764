"""Ctrl-C at every step: a clear word, status 130, and what was accepted goes on."""

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.stack import Stack, Trace, suspend, until
from tests.e2e.terminal import Terminal
from xmcloud.local.processes import Processes

LAUNCH = """
import os, sys, time
from xmcloud import xm, xm_local

def pause(step):
    print("before", step, flush=True)
    while step in sys.argv and not os.path.exists("go-" + step):
        time.sleep(0.02)
    print("now", step, flush=True)

def main(argv):
    with xm_local.create_experiment(experiment_title="interrupted") as experiment:
        pause("packaging")
        spec = xm.PythonContainer(path="code", entrypoint=xm.ModuleName("job"))
        [executable] = experiment.package([xm.Packageable(spec, xm_local.Local.Spec())])
        pause("submitting")
        experiment.add(xm.Job(executable, xm_local.Local()))
        pause("waiting")
"""

JOB = """
import os, time
print("the job runs", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.05)
print("the job ends")
"""


@pytest.fixture
def script(trace: Trace) -> Path:
    (trace.folder / "code").mkdir()
    (trace.folder / "code" / "job.py").write_text(JOB.format(go=str(trace.folder / "go")))
    (trace.folder / "launch.py").write_text(LAUNCH)
    return trace.folder / "launch.py"


def _assert_interrupted(terminal: Terminal, *words: str) -> None:
    """Python ends by the signal itself, which a shell calls 130 too, if that came while a string
    was executed, as dataclasses do on import, however it is handled then."""
    terminal.interrupt()
    assert terminal.end() in (130, -signal.SIGINT), terminal.text
    assert "Traceback" not in terminal.text
    for word in words:
        assert word in terminal.text


def _experiments(stack: Stack) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = stack.json("list")["experiments"]
    return listed


def _assert_it_works_now(stack: Stack, script: Path, trace: Trace) -> None:
    trace.open()
    assert "1 completed" in stack("launch", str(script), folder=trace.folder).stderr


@pytest.mark.parametrize("words", [["up"], ["run", "--", "true"], ["launch", "launch.py"]])
def test_while_the_control_plane_starts(
    embedded: Stack, script: Path, trace: Trace, words: list[str]
) -> None:
    terminal = embedded.on_terminal(*words, folder=trace.folder)
    records = Processes(embedded.home).records
    until(lambda: bool(records()), "the control plane was started")
    _assert_interrupted(terminal, "Interrupted.")
    assert embedded.records() == {}
    assert not (embedded.home / "control.json").exists()
    _assert_it_works_now(embedded, script, trace)


@pytest.mark.parametrize("step", ["packaging", "submitting"])
def test_while_a_launch_sends(embedded: Stack, script: Path, trace: Trace, step: str) -> None:
    embedded.up()
    terminal = embedded.on_terminal("launch", "launch.py", "--", step, folder=trace.folder)
    terminal.until_shown(f"before {step}")
    control_plane = embedded.process("control-plane")
    suspend(control_plane)
    trace.open(f"go-{step}")
    told = ["xmcloud show", "xmcloud stop"] if step == "submitting" else []
    terminal.until_shown("now waiting" if told else "now packaging")
    _assert_interrupted(terminal, "Interrupted.", *told)
    control_plane.resume()
    (interrupted,) = _experiments(embedded)
    trace.open()
    jobs = embedded.ended(interrupted["experiment"]["id"])
    assert len(jobs) <= (step == "submitting")
    assert all(job.state == "completed" for job in jobs)
    _assert_it_works_now(embedded, script, trace)


def test_while_a_launch_waits(embedded: Stack, script: Path, trace: Trace) -> None:
    terminal = embedded.on_terminal("launch", "launch.py", folder=trace.folder)
    terminal.until_shown("the job runs")
    before = embedded.records()
    _assert_interrupted(terminal, "the jobs that were sent go on", "xmcloud show", "xmcloud stop")
    assert embedded.records() == before
    (interrupted,) = _experiments(embedded)
    trace.open()
    (job,) = embedded.ended(interrupted["experiment"]["id"])
    assert (job.state, len(job.attempts)) == ("completed", 1)
    assert embedded.whole_log(job) == b"the job runs\nthe job ends\n"
    _assert_it_works_now(embedded, script, trace)


def test_while_a_command_is_sent_or_followed(embedded: Stack, trace: Trace) -> None:
    embedded.up()
    control_plane = embedded.process("control-plane")
    suspend(control_plane)
    terminal = embedded.on_terminal("run", "--", "true")
    process = psutil.Process(terminal.pid)
    until(lambda: bool(process.net_connections()), "it has connected")
    _assert_interrupted(terminal, "Interrupted.")
    control_plane.resume()
    assert all(not each["states"] for each in _experiments(embedded))

    script = ["sh", "-c", f"echo hello; {trace.script()}"]
    terminal = embedded.on_terminal("run", "--title=kept", "--", *script, folder=trace.folder)
    terminal.until_shown("hello")
    experiment = _experiments(embedded)[0]["experiment"]
    assert experiment["title"] == "kept"
    following = embedded.on_terminal("logs", "-f", experiment["id"])
    following.until_shown("hello")
    reference = f"{experiment['id'][:8]}/1"
    _assert_interrupted(terminal, f"Job {reference} goes on", f"xmcloud stop {reference}")
    _assert_interrupted(following, "goes on")
    trace.open()
    (job,) = embedded.ended(experiment["id"])
    assert trace.of("end") == {job.id: [1]}
