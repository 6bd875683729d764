"""A control plane with its workers as people run them, in a home of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.e2e.terminal import DEADLINE, Terminal
from xmcloud.core.models import Job
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec, Limits
from xmcloud.local.processes import Processes, ProcessRecord, alive
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.places import address

NEVER = 3600.0
"""Seconds of a lease, of which a third is the heartbeat: what a test sees happens without them."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Returns as soon as it holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.02)


class Stack:
    """Runs the command line, and workers besides the one that `up` starts."""

    def __init__(self, home: Path, cache: Path, emulators: bool = False) -> None:
        self.home = home
        self.emulators = emulators
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("XMCLOUD_")
        } | {"XMCLOUD_HOME": str(home), "XMCLOUD_CACHE": str(cache)}
        self.workers: list[subprocess.Popen[bytes]] = []
        self._terminals: list[Terminal] = []
        self._client: Client | None = None

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "xmcloud.cli", *words]

    def __call__(
        self, *words: str, status: int = 0, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(*words),
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=5 * DEADLINE,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def on_terminal(self, *words: str, folder: Path | None = None) -> Terminal:
        """The command as a person runs it."""
        self._terminals.append(Terminal(self.argv(*words), self.environment, folder))
        return self._terminals[-1]

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status).stdout)

    def up(self, *, lease: float = NEVER, slots: int = 2) -> None:
        """Starts what is missing of the control plane and the worker `local`."""
        self.environment["XMCLOUD_LEASE_SECONDS"] = str(lease)
        emulators = ["--emulators"] if self.emulators else []
        self("up", f"--slots={slots}", *emulators)

    def worker(self, name: str, slots: int = 2) -> "subprocess.Popen[bytes]":
        """Another worker of the same pool; it may not be connected yet."""
        own = [f"--name={name}", "--pool=local", f"--slots={slots}"]
        with (self.home / "logs" / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                self.argv("worker", "start", *own),
                env=self.environment | self._of_emulators(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(started)
        return started

    def _of_emulators(self) -> dict[str, str]:
        if not self.emulators:
            return {}
        addresses = json.loads((self.home / "emulators.json").read_text())
        return {
            "XMCLOUD_QUEUE": "pubsub",
            "GOOGLE_CLOUD_PROJECT": addresses["project"],
            "PUBSUB_EMULATOR_HOST": addresses["pubsub"],
        }

    @property
    def client(self) -> Client:
        """Of the control plane that runs now."""
        place = address(self.environment)
        if self._client is None or self._client.url != place.url:
            self._client = Client(place.url, place.credentials)
        return self._client

    def log_of(self, part: str) -> str:
        return (self.home / "logs" / f"{part}.log").read_text()

    def records(self) -> dict[str, ProcessRecord]:
        """What `up` started and what is alive of it."""
        return {r.name: r for r in Processes(self.home).records() if alive(r)}

    def process(self, part: str) -> psutil.Process:
        return psutil.Process(self.records()[part].pid)

    def kill(self, part: str) -> None:
        """SIGKILL for that process alone; nothing it started hears of it."""
        process = self.process(part)
        process.kill()
        process.wait(DEADLINE)

    def submit(
        self,
        folder: Path,
        script: str,
        count: int = 1,
        pool: str = "local",
        limits: Limits = Limits(),  # noqa: B008  it is frozen
    ) -> str:
        """An experiment with so many jobs that run the shell script in the folder; its id."""
        experiment = self.client.create_experiment(NewExperiment(title="test")).id
        command = Command(command=("sh", "-c", script), directory=str(folder))
        job = NewJob(name="job", spec=JobSpec(executable=command, pool=pool, limits=limits))
        self.client.add_units(experiment, NewUnits(units=(NewUnit(jobs=(job,)),) * count))
        return experiment

    def ended(self, experiment: str) -> list[Job]:
        """The jobs of the experiment, in order of unit, when all are over."""
        deadline = time.monotonic() + DEADLINE
        changes = self.client.changes(experiment)
        jobs = {job.id: job for job in changes.jobs}
        while not all(job.state.terminal for job in jobs.values()):
            assert time.monotonic() < deadline, [(j.unit, j.state, j.reason) for j in jobs.values()]
            changes = self.client.changes(experiment, changes.cursor, 20)
            jobs |= {job.id: job for job in changes.jobs}
        return sorted(jobs.values(), key=lambda job: job.unit)

    def whole_log(self, job: Job) -> bytes:
        pieces = []
        offset = 0
        while piece := self.client.log(job.id, offset=offset).data:
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait(DEADLINE)
        self.workers.clear()

    def stop_parts(self, *names: str) -> None:
        Processes(self.home).stop(10, names)

    def close(self) -> None:
        """Stops everything; fails if anything was left then, and does not leave it there."""
        if self._client is not None:
            self._client.close()
        try:
            for terminal in self._terminals:
                terminal.close()
            self.stop_workers()
            if self.home.exists():
                self("down")
            left = processes_of(self.home)
            assert [" ".join(process.cmdline()) for process in left] == []
        finally:
            kill_all(processes_of(self.home))


def processes_of(home: Path) -> list[psutil.Process]:
    """Living processes that name the home in their environment or on their command line."""
    return [process for process in psutil.process_iter() if _names(process, str(home))]


def _names(process: psutil.Process, home: str) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        words = [*process.cmdline(), *process.environ().values()]
    except psutil.Error:
        return False
    return any(home in word for word in words)


def kill_all(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
            process.wait(10)
        except psutil.NoSuchProcess:
            continue


class Line(NamedTuple):
    """What a traced job wrote when it began or ended."""

    job: str
    attempt: int
    what: str
    pid: int


class Trace:
    """A file to which jobs write when they begin and when they end, which they do on a word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "trace"

    def script(self, gate: str = "go", between: str = "true") -> str:
        """`between` runs after the gate opened."""
        told = 'echo "$XMCLOUD_JOB_ID $XMCLOUD_ATTEMPT {} $$" >> trace'
        wait = f"until test -e {gate}; do sleep 0.1; done"
        return "; ".join([told.format("start"), wait, between, told.format("end")])

    def open(self, gate: str = "go") -> None:
        (self.folder / gate).touch()

    def lines(self, what: str) -> list[Line]:
        """All that were written whole, in order."""
        text = self._file.read_text() if self._file.exists() else ""
        found = [line.split() for line in text.split("\n")[:-1]]
        return [Line(job, int(n), was, int(pid)) for job, n, was, pid in found if was == what]

    def until(self, what: str, count: int) -> list[Line]:
        """The lines, as soon as there are so many."""
        until(lambda: len(self.lines(what)) >= count, f"{count} jobs {what}")
        return self.lines(what)

    def of(self, what: str) -> dict[str, Sequence[int]]:
        """The attempts that wrote it, by job, in order."""
        found: dict[str, list[int]] = {}
        for line in self.lines(what):
            found.setdefault(line.job, []).append(line.attempt)
        return dict(found)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def suspend(process: psutil.Process) -> None:
    """It neither answers nor ends until it goes on."""
    process.suspend()
    until(lambda: process.status() == psutil.STATUS_STOPPED, "the process is suspended")
