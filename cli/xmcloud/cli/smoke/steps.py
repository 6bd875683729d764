"""What is tried: each part of a deployment once."""

import hashlib
import json
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from xmcloud.cli.checks.check import Check, Verdict
from xmcloud.cli.checks.line import Line
from xmcloud.cli.checks.round_trips import blob_round_trip, queue_round_trip
from xmcloud.cli.smoke.commands import Commands
from xmcloud.cli.smoke.trying import Failed, Step, until
from xmcloud.core.errors import Unavailable
from xmcloud.core.identity import EVERYWHERE, Permission, Role
from xmcloud.core.protocol import Sessions

POOL, QUEUE = "smoke", "default"
SAYS = "smoke: this job runs"
_PROGRAM = """
import hashlib, json, os
print("smoke: this job runs", os.environ["SMOKE"])
told = {"digest": hashlib.sha256(os.environ["SMOKE"].encode()).hexdigest()}
open(os.environ["XMCLOUD_RESULTS"], "w").write(json.dumps(told))
"""
_SLEEPS = "import time; time.sleep(600)"
_READY_SECONDS = 30.0
_JOB_SECONDS = 180.0
_ENDS_SECONDS = 60.0
_LAUNCHED = "smoke-experiment"
LAUNCH = f"""
from xmcloud import xm, xm_local

def main(argv):
    with xm_local.create_experiment(experiment_title="smoke: Vertex AI") as experiment:
        spec = xm.PythonContainer(path="program", entrypoint=xm.ModuleName("smoke"))
        [executable] = experiment.package([xm.Packageable(spec, xm_local.Vertex.Spec())])
        vertex = xm_local.Vertex(requirements=xm.JobRequirements(cpu=4))
        experiment.add(xm.Job(executable, vertex))
        print("{_LAUNCHED}", experiment.experiment_id)
"""
_VERTEX_SECONDS = 3600.0


class Smoke:
    """Remembers what steps made, for those that come later and for cleaning up."""

    def __init__(self, commands: Commands, terraform: Path) -> None:
        self._xmcloud, self._terraform = commands, terraform
        mark = secrets.token_hex(4)
        self._worker = f"smoke-{mark}"
        self._secret, self._value = f"smoke-{mark}", secrets.token_hex(16)
        self._kept = False
        self._pid = 0
        self._job = ""

    def steps(self, *, vertex: bool) -> list[Step]:
        """In the order in which each needs those before it."""
        operator = "Ask an admin: xmcloud member set YOU operator --everywhere"
        log = "See the log of the function xmcloud-api."
        steps = [
            Step("Sign in", self._sign_in, ""),
            Step("Ready", self._ready, log),
            Step("Secret", self._keep_secret, "See its right to secrets: docs/terraform.md"),
            Step("Experiment", self._submit, log),
            Step("Worker", self._start_worker, operator),
            Step("Log", self._read_log, "xmcloud show of the job says what it waits for."),
            Step("Result", self._read_result, "See the log of the job: xmcloud logs"),
            Step("Messages", self._messages, "See topics and subscriptions: docs/operation.md"),
            Step("Files", self._files, "See its rights to the bucket: docs/terraform.md"),
            Step("Stop", self._stop, log),
        ]
        if vertex:
            about = "xmcloud build list, xmcloud target list; docs/cloud.md"
            steps.append(Step("Vertex AI", self._on_vertex, about))
        return steps

    def clean_up(self) -> str:
        """What there was to remove. The experiments stay, as experiments do."""
        if self._pid:
            _end(self._pid)
        if self._kept:
            self._xmcloud("secret", "remove", self._secret)
        return "worker stopped, secret removed" if self._pid else "nothing was left"

    def _sign_in(self) -> str:
        if not self._xmcloud.environ.get("XMCLOUD_URL"):
            self._xmcloud("login", "--from-terraform", str(self._terraform))
        known = self._xmcloud.json("whoami")
        role = known["roles"].get(EVERYWHERE)
        if role is None or Permission.WORK not in Role(role).permissions:
            raise Failed(
                f"{known['name']} has no role with which to try all of it.",
                f"An admin can give it: xmcloud member set {known['name']} operator --everywhere",
            )
        return f"{known['name']}, {role}, at {known['url']}"

    def _ready(self) -> str:
        """An instance that has just begun may take longer than it gives itself."""
        refused = Unavailable("")
        for _ in until(_READY_SECONDS):
            try:
                with Line(self._xmcloud.place()) as line:
                    line.get_bytes("/v1/ready")
            except Unavailable as error:
                refused = error
            else:
                return "store, queue and blobs answer"
        raise refused

    def _keep_secret(self) -> str:
        self._xmcloud("secret", "set", self._secret, given=self._value)
        self._kept = True
        return f"{self._secret} is kept"

    def _submit(self) -> str:
        secret = f"--secret=SMOKE={self._secret}"
        self._job = self._run("smoke", secret, "--", sys.executable, "-c", _PROGRAM)["id"]
        return f"job {self._job} waits for pool {POOL}"

    def _run(self, title: str, *words: str) -> Any:
        fixed = [f"--title={title}", f"--pool={POOL}", f"--queue={QUEUE}", "--detach"]
        return self._xmcloud.json("run", *fixed, *words)

    def _start_worker(self) -> str:
        own = [f"--name={self._worker}", f"--pool={POOL}", f"--queue={QUEUE}", "--gpus=none"]
        self._pid = json.loads(self._xmcloud("worker", "start", "--background", "--json", *own))[
            "pid"
        ]
        return f"{self._worker} is connected"

    def _read_log(self) -> str:
        log = self._xmcloud("logs", "-f", self._job, seconds=_JOB_SECONDS)
        if SAYS not in log:
            raise Failed(f"The log of job {self._job} says {log[-200:]!r}.")
        if self._value in log:
            raise Failed(f"The log of job {self._job} shows the secret.")
        return "what the job said, its secret masked"

    def _read_result(self) -> str:
        job = self._xmcloud.json("show", self._job)
        if job["results"].get("digest") != hashlib.sha256(self._value.encode()).hexdigest():
            raise Failed(f"Job {self._job} is {job['state']}: {job['reason']['message']}.")
        return f"{job['state']}; it was told the secret"

    def _messages(self) -> str:
        with Line(self._xmcloud.place()) as line:
            found = line.get(Sessions, "/v1/workers").sessions
        ours = [each for each in found if each.worker == self._worker]
        if not ours:
            raise Failed(f"The worker {self._worker} is not connected any more.")
        (check,) = queue_round_trip(self._xmcloud.place(), ours)
        return _seen(check)

    def _files(self) -> str:
        (check,) = blob_round_trip(self._xmcloud.place())
        return _seen(check)

    def _stop(self) -> str:
        job = self._run("smoke: to be stopped", "--", sys.executable, "-c", _SLEEPS)["id"]
        self._xmcloud("stop", job, "--message=smoke")
        self._xmcloud("logs", "-f", job, seconds=_JOB_SECONDS)
        state = self._xmcloud.json("show", job)["state"]
        if state != "stopped":
            raise Failed(f"Job {job} is {state}, not stopped.")
        return "a job was stopped"

    def _on_vertex(self) -> str:
        """Its image is built by Cloud Build, unless the same one was before."""
        script = write_launch(self._xmcloud.folder)
        said = self._xmcloud("launch", script.name, seconds=_VERTEX_SECONDS)
        found = [line.split()[-1] for line in said.splitlines() if line.startswith(_LAUNCHED)]
        if not found:
            raise Failed(f"The launch said {said[-200:]!r}.")
        log = self._xmcloud("logs", "-f", f"{found[0]}/1", seconds=_VERTEX_SECONDS)
        if SAYS not in log:
            raise Failed(f"The log of {found[0]}/1 says {log[-200:]!r}.")
        return "an image was built, and a job of it ran and told its log"


def _end(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        process.send_signal(signal.SIGTERM)
        process.wait(_ENDS_SECONDS)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        raise Failed(f"The worker does not end: process {pid}.", f"kill -9 {pid}") from None


def _seen(check: Check) -> str:
    if check.verdict is not Verdict.OK:
        raise Failed(check.detail, check.remedy)
    return check.detail


def write_launch(folder: Path) -> Path:
    """A launch script, and the program whose image it asks for."""
    program = folder / "program"
    program.mkdir()
    (program / "smoke.py").write_text(f'print("{SAYS}")\n', "utf-8")
    script = folder / "vertex.py"
    script.write_text(LAUNCH, "utf-8")
    return script


def asked_for_vertex() -> bool:
    return os.environ.get("SMOKE_VERTEX", "") not in ("", "0")
