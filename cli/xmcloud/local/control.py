"""Starting and stopping a control plane, a worker and the emulators on this machine."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Timer

import httpx
import psutil

from xmcloud.core.errors import XmcloudError
from xmcloud.local.emulators import EmulatorAddresses, find_installation, start_emulators
from xmcloud.local.home import Control, Home
from xmcloud.local.processes import (
    LOOPBACK,
    PortTaken,
    Processes,
    ProcessRecord,
    alive,
    answers,
    check_port,
    free_port,
    lives,
    wait_until_ready,
)
from xmcloud.local.rehearsal import REHEARSAL, STAND_INS, start_rehearsal
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.places import home as home_of
from xmcloud.xm_cloud.places import named_elsewhere, started_here

CONTROL_PLANE, WORKER = "control-plane", "worker"
EMULATORS = ("firestore", "pubsub", "storage")
WORKER_NAME = "local"

_PROJECT = _BUCKET = "xmcloud-local"
_READY_SECONDS = 60.0
_DRAIN_SECONDS = 10.0
_GRACE_SECONDS = 5.0
_SILENT_SECONDS = 1.0
_STEP_SECONDS = 0.05

Say = Callable[[str], None]


class RunsOtherwise(XmcloudError):
    """A control plane runs already, but not as asked for."""

    slug, title, status = "runs-otherwise", "It runs in another way", 409

    def __init__(self, how: str, option: str) -> None:
        super().__init__(
            f"The control plane runs already, {how}.",
            f"Leave out {option}, or stop it first: xmcloud down.",
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `up` is asked for; None takes what runs already, or what fits this machine."""

    port: int | None = None
    slots: int | None = None
    emulators: bool = False
    stand_ins: bool = False
    registry: str = ""


def ensure_up(say: Say, environ: Mapping[str, str] = os.environ) -> None:
    """Start what is missing on this machine, unless commands go to another control plane."""
    if named_elsewhere(environ):
        return
    plane = LocalPlane(Home(home_of(environ)), say)
    if not plane.complete():
        say("Starting the control plane (stop it with: xmcloud down)")
        plane.up(Wanted())


class LocalPlane:
    """The processes of one home folder."""

    def __init__(self, home: Home, say: Say) -> None:
        self.home = home
        self.processes = Processes(home.path)
        self._say = say

    def running(self) -> dict[str, ProcessRecord]:
        return {record.name: record for record in self.processes.records() if alive(record)}

    def complete(self) -> bool:
        """Whether the control plane listens and its worker lives."""
        return self.home.control() is not None and {CONTROL_PLANE, WORKER} <= self.running().keys()

    def up(self, wanted: Wanted) -> list[str]:
        """Start what is missing; return its names when all is ready. Leaves nothing half started.

        Raises RunsOtherwise, PortTaken, ProcessDied, NotReady, MissingEmulators, Unauthorized.
        """
        self.home.prepare()
        with self.home.locked(self._slow("Waiting for another command that starts or stops it")):
            started: list[str] = []
            try:
                self._start_missing(wanted, started)
            except BaseException:
                self.processes.stop(_GRACE_SECONDS, started)
                if CONTROL_PLANE in started:
                    self.home.withdraw()
                raise
        return started

    def down(self) -> list[str]:
        """Stop the worker, which gives its jobs back, then the rest; the names of what ran."""
        if not self.home.path.exists():
            return []
        with self.home.locked(self._slow("Waiting for another command that starts or stops it")):
            return self._stop()

    def _stop(self) -> list[str]:
        stopped = []
        if worker := self.running().get(WORKER):
            with self._slow("Waiting for the worker to give its jobs back"):
                _drain(worker)
            stopped.append(WORKER)
        for names in ([WORKER], [CONTROL_PLANE], REHEARSAL, EMULATORS):
            stopped += [record.name for record in self.processes.stop(_GRACE_SECONDS, names)]
        self.home.withdraw()
        return list(dict.fromkeys(stopped))

    def _start_missing(self, wanted: Wanted, started: list[str]) -> None:
        running = self.running()
        control = self._listening(running)
        if control is not None:
            _refuse_otherwise(control, wanted)
        emulated = wanted.emulators or not running.keys().isdisjoint(EMULATORS)
        if emulated and not running.keys() >= {*EMULATORS}:
            self._stop()
            running, control = {}, None
        variables = self._variables(self._emulators(running, started) if emulated else None)
        rehearsed = wanted.stand_ins or not running.keys().isdisjoint(REHEARSAL)
        variables |= self._rehearsal(wanted, running, variables, started) if rehearsed else {}
        if control is None:
            before = self.home.control()
            control = self._start_control_plane(wanted.port, variables, started)
            if before != control and WORKER in running:
                _drain(running.pop(WORKER))
        if WORKER not in running:
            self._start_worker(wanted.slots, variables, started)
        elif wanted.slots is not None:
            self._say("The worker runs already; for other --slots, stop it first: xmcloud down")

    def _listening(self, running: Mapping[str, ProcessRecord]) -> Control | None:
        """The control plane that runs; one that does not answer counts as none."""
        control = self.home.control()
        if CONTROL_PLANE not in running or control is None:
            return None
        return control if answers(control.port, "/v1/health")() else None

    def _emulators(
        self, running: Mapping[str, ProcessRecord], started: list[str]
    ) -> EmulatorAddresses:
        addresses = self.home.emulators()
        if running and addresses is not None:
            return addresses
        installation = find_installation(os.environ)
        with self._slow("Starting the emulators"):
            addresses = start_emulators(self.processes, installation, _PROJECT)
        started += EMULATORS
        self.home.keep_emulators(addresses)
        _make_bucket(addresses)
        return addresses

    def _rehearsal(
        self,
        wanted: Wanted,
        running: Mapping[str, ProcessRecord],
        variables: Mapping[str, str],
        started: list[str],
    ) -> dict[str, str]:
        if STAND_INS in running and (known := self.home.rehearsal()) is not None:
            return known
        self.processes.stop(_GRACE_SECONDS, REHEARSAL)
        started += [STAND_INS] if wanted.registry else REHEARSAL
        with self._slow("Starting the stand-ins for Vertex AI and Cloud Build"):
            found = start_rehearsal(
                self.processes, self.home.path, variables, wanted.registry, self._say
            )
        self.home.keep_rehearsal(found)
        return found

    def _variables(self, emulators: EmulatorAddresses | None) -> dict[str, str]:
        # Empty counts as not set: these processes belong together, whatever the caller uses.
        own = {"XMCLOUD_HOME": str(self.home.path), "XMCLOUD_URL": "", "XMCLOUD_TOKEN": ""}
        if emulators is None:
            return {**own, "XMCLOUD_PROFILE": "embedded", "XMCLOUD_QUEUE": ""}
        cloud = {"XMCLOUD_PROFILE": "gcp", "XMCLOUD_QUEUE": "pubsub", "XMCLOUD_BUCKET": _BUCKET}
        return {**own, **cloud, **emulators.environment()}

    def _start_control_plane(
        self, wanted_port: int | None, variables: dict[str, str], started: list[str]
    ) -> Control:
        self.processes.stop(_GRACE_SECONDS, [CONTROL_PLANE])
        port = self._port(wanted_port)
        variables = {**variables, "XMCLOUD_PUBLIC_URL": f"http://{LOOPBACK}:{port}"}
        started.append(CONTROL_PLANE)
        with self._slow("Starting the control plane"):
            record = self.processes.start(
                CONTROL_PLANE,
                [*_python("xmcloud.local.serve"), f"--home={self.home.path}", f"--port={port}"],
                variables,
            )
            wait_until_ready(record, answers(port, "/v1/health"), _READY_SECONDS)
        control = self.home.control()
        assert control is not None
        return control

    def _port(self, wanted: int | None) -> int:
        """The one asked for, else the one of the last time, else a free one."""
        if wanted is not None:
            check_port(wanted)
            return wanted
        if last := self.home.last_port():
            try:
                check_port(last)
            except PortTaken:
                return free_port()
            return last
        return free_port()

    def _start_worker(
        self, slots: int | None, variables: dict[str, str], started: list[str]
    ) -> None:
        place = started_here({"XMCLOUD_HOME": str(self.home.path)})
        own = [f"--name={WORKER_NAME}", "--pool=local", f"--slots={slots or _processors()}"]
        with Client(place.url, place.credentials) as client, self._slow("Starting a worker"):
            before = _sessions(client)
            started.append(WORKER)
            record = self.processes.start(
                WORKER,
                [*_python("xmcloud.cli"), "worker", "start", *own],
                {**variables, "XMCLOUD_URL": place.url},
                takes_over=True,
            )
            wait_until_ready(record, lambda: bool(_sessions(client) - before), _READY_SECONDS)

    @contextmanager
    def _slow(self, message: str) -> Iterator[None]:
        """Tell what is going on once it takes longer than a person waits without wondering."""
        timer = Timer(_SILENT_SECONDS, self._say, [f"{message} ..."])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _refuse_otherwise(control: Control, wanted: Wanted) -> None:
    if wanted.emulators and control.profile != "emulators":
        raise RunsOtherwise("without emulators", "--emulators")
    if wanted.stand_ins and not control.rehearsed:
        raise RunsOtherwise("without stand-ins", "--stand-ins")
    if wanted.port not in (None, control.port):
        raise RunsOtherwise(f"on port {control.port}", "--port")


def _python(module: str) -> list[str]:
    # -P: a module of the caller's folder must not stand in for one of Python's.
    return [sys.executable, "-P", "-m", module]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _sessions(client: Client) -> set[str]:
    return {each.id for each in client.workers().sessions if each.worker == WORKER_NAME}


def _drain(worker: ProcessRecord) -> None:
    """Ask the worker itself to leave: it stops its jobs and gives them back."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(worker.pid)
        process.terminate()
        # In steps, since it may have ended and not be collected by its parent yet.
        while lives(process) and time.monotonic() < deadline:
            with suppress(psutil.TimeoutExpired):
                process.wait(_STEP_SECONDS)


def _make_bucket(addresses: EmulatorAddresses) -> None:
    url = f"http://{addresses.storage}/storage/v1/b"
    httpx.post(
        url, params={"project": addresses.project}, json={"name": _BUCKET}, trust_env=False
    ).raise_for_status()
