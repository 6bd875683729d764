"""A control plane and its workers as processes that a test kills, stops and starts again."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.e2e.stack import NEVER, kill_all, processes_of, until
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import BATCH_LIMIT, NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec, Limits, PythonSource
from xmcloud.local.home import Home
from xmcloud.worker import keeper
from xmcloud.xm_cloud.client import Client

LONG = 30.0
"""Seconds; ends a test that would fail, delays none that passes."""


class Worker:
    """One name, and the processes that have it one after the other."""

    def __init__(
        self,
        site: "Site",
        name: str,
        flags: Sequence[str],
        prefix: Sequence[str],
        variables: Mapping[str, str],
    ) -> None:
        self.name = name
        self.home = Path(variables.get("XMCLOUD_HOME", site.home.path))
        self.folder = self.home / "workers" / name
        self.log = site.folder / f"{name}.log"
        module = [sys.executable, "-m", "xmcloud.worker"]
        self._argv = [*prefix, *module, f"--name={name}", *flags]
        self._environment = {**site.environment, **variables}
        self._popen: subprocess.Popen[bytes] | None = None
        self._said_before = 0

    def start(self, **variables: str) -> None:
        """With these besides its own."""
        self._said_before = len(self.said())
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                self._argv,
                env={**self._environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._popen is not None
        return self._popen

    def kill(self) -> None:
        """SIGKILL for that process alone."""
        self.process.kill()
        self.process.wait()

    def leave(self) -> None:
        """Gracefully."""
        self.process.terminate()
        assert self.process.wait(LONG) == 0, self.said()

    def restart(self) -> None:
        self.kill()
        self.start()

    def keepers(self) -> list[psutil.Process]:
        """At most one, unless something is wrong."""
        return [each for each in psutil.process_iter() if _keeps(each, self.folder)]

    def kill_keeper(self) -> None:
        (found,) = self.keepers()
        found.kill()
        with suppress(psutil.NoSuchProcess):
            found.wait(LONG)

    def attempts(self) -> list[str]:
        """Folders of attempts."""
        found = self.folder / "attempts"
        return sorted(os.listdir(found)) if found.is_dir() else []

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def is_up(self) -> bool:
        """Connected since it was started."""
        assert self.process.poll() is None, self.said()
        return "is ready" in self.said()[self._said_before :]

    def close(self) -> None:
        """Gracefully; nothing of it may be left then, nor any mistake in its log."""
        if self._popen is None:
            return
        if self._popen.poll() is None:
            until(self.is_up, f"{self.name} is there")
            self.leave()
        until(lambda: not self.keepers(), f"the keeper of {self.name} ends")
        assert "Traceback" not in self.said(), self.said()
        assert "made a mistake" not in self.said(), self.said()
        assert self.attempts() == []


def _keeps(process: psutil.Process, folder: Path) -> bool:
    try:
        return keeper.__file__ in process.cmdline() and process.cwd() == str(folder)
    except psutil.Error:
        return False


class Site:
    """An embedded control plane on a port that stays the same, and workers."""

    def __init__(self, folder: Path, lease: float = NEVER) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.home.prepare()
        self.port = free_port()
        self.token = (self.home.path / "token").read_text()
        self.client = Client(f"http://127.0.0.1:{self.port}", self.token)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("XMCLOUD_")
        } | {
            "XMCLOUD_HOME": str(self.home.path),
            "XMCLOUD_CACHE": str(folder / "cache"),
            "XMCLOUD_PROFILE": "embedded",
            "XMCLOUD_LEASE_SECONDS": str(lease),
            "XMCLOUD_URL": f"http://127.0.0.1:{self.port}",
        }
        self.workers: list[Worker] = []
        self._control: subprocess.Popen[bytes] | None = None

    @property
    def control(self) -> "subprocess.Popen[bytes]":
        assert self._control is not None
        return self._control

    def start_control(self) -> None:
        """Returns when it listens."""
        self.home.withdraw()
        argv = (sys.executable, "-m", "xmcloud.local.serve")
        with (self.folder / "control.log").open("ab") as log:
            self._control = subprocess.Popen(
                [*argv, f"--home={self.home.path}", f"--port={self.port}"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._listens, "the control plane listens")

    def _listens(self) -> bool:
        assert self.control.poll() is None, (self.folder / "control.log").read_text()
        return self.home.control() is not None

    def kill_control(self) -> None:
        self.control.kill()
        self.control.wait()

    def suspend_control(self) -> None:
        """It neither answers nor refuses."""
        self.control.send_signal(signal.SIGSTOP)
        process = psutil.Process(self.control.pid)
        until(lambda: process.status() == psutil.STATUS_STOPPED, "the control plane is suspended")

    def resume_control(self) -> None:
        self.control.send_signal(signal.SIGCONT)

    def worker(
        self,
        name: str = "ant",
        queues: str = "default",
        slots: int = 2,
        prefix: Sequence[str] = (),
        **variables: str,
    ) -> Worker:
        """Started; `prefix` is a command that runs it."""
        flags = (f"--queues={queues}", f"--slots={slots}")
        worker = Worker(self, name, flags, prefix, variables)
        self.workers.append(worker)
        worker.start()
        return worker

    def submit(
        self,
        script: str,
        queue: str = "default",
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> Job:
        """A job that runs the shell script in the folder of jobs."""
        command = Command(command=("sh", "-c", script), directory=str(self.jobs))
        return self.submit_all([command], queue, limits)[0]

    def submit_all(
        self,
        executables: Sequence[Command | PythonSource],
        queue: str = "default",
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> list[Job]:
        """One job each, of one experiment."""
        experiment = self.client.create_experiment(NewExperiment(title="test")).id
        specs = [JobSpec(executable=each, limits=limits) for each in executables]
        jobs = [NewJob(name="job", spec=spec, queue=queue) for spec in specs]
        units = [NewUnit(jobs=(job,)) for job in jobs]
        added: list[Job] = []
        for start in range(0, len(units), BATCH_LIMIT):
            some = tuple(units[start : start + BATCH_LIMIT])
            added += self.client.add_units(experiment, NewUnits(units=some))
        return added

    @property
    def jobs(self) -> Path:
        """Where they run, and leave traces."""
        folder = self.folder / "jobs"
        folder.mkdir(exist_ok=True)
        return folder

    def until(self, job: Job, state: JobState, attempts: int = 1) -> Job:
        """The job, as soon as it is in that state with so many attempts."""
        return self._when(job, lambda now: now.state is state and len(now.attempts) >= attempts)

    def ended(self, job: Job) -> Job:
        return self._when(job, lambda now: now.state.terminal)

    def _when(self, job: Job, condition: Callable[[Job], bool]) -> Job:
        last = job

        def holds() -> bool:
            nonlocal last
            last = self.client.job(job.id)
            return condition(last)

        until(holds, f"the job gets there: {job.id}")
        return last

    def output(self, job: Job, fence: int | None = None) -> bytes:
        """The whole log."""
        pieces = b""
        while piece := self.client.log(job.id, fence, len(pieces)).data:
            pieces += piece
        return pieces

    def connected(self, name: str) -> bool:
        return any(session.worker == name for session in self.client.workers().sessions)

    def close(self) -> None:
        """Stops everything; fails if anything was left then, and does not leave it there."""
        try:
            if self._control is not None:
                self.resume_control()
            for worker in self.workers:
                worker.close()
        finally:
            self.client.close()
            if self._control is not None:
                self._control.terminate()
                self._control.wait(LONG)
            left = [process for folder in self._homes() for process in processes_of(folder)]
            left += [keeper for worker in self.workers for keeper in worker.keepers()]
            told = [" ".join(process.cmdline()) for process in left]
            kill_all(left)
        assert told == []
        said = (self.folder / "control.log").read_text()
        assert "Traceback" not in said, said

    def _homes(self) -> Iterator[Path]:
        yield from {self.home.path, *(worker.home for worker in self.workers)}


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
