"""Background processes that outlive the command that starts them and leave with all their children.

Every process is started as the leader of its own session with a mark in its environment, which its
descendants inherit: so they are found again although the process in between is gone.
"""

import fcntl
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, ClassVar

import httpx
import psutil
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from xmcloud.core.errors import XmcloudError

LOOPBACK = "127.0.0.1"
MARK_VARIABLE = "XMCLOUD_PROCESS_MARK"
_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0
# The start time of a process is told relative to the boot, which the kernel may correct a little.
_CLOCK_CORRECTION_SECONDS = 1.5

# 0 would mean the caller's own group, and 1 is the system's first process.
_Pid = Annotated[int, Field(gt=1)]


class ProcessRecord(BaseModel):
    """What it takes to find a process again, and never another one that got its pid."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    pid: _Pid
    pgid: _Pid
    create_time: float
    mark: str = Field(min_length=16)
    argv: tuple[str, ...]
    log: Path


_RECORDS = TypeAdapter(list[ProcessRecord])


class NotStarted(XmcloudError):
    """The program of a process cannot be executed."""

    slug, title = "process-not-started", "A local process cannot be started"

    def __init__(self, name: str, program: str, why: str) -> None:
        super().__init__(f"{name} cannot be started: {program}: {why}.", "Install or repair it.")


class AlreadyRunning(XmcloudError):
    """A process of that name is on record and lives."""

    slug, title = "process-already-running", "Already running"
    status: ClassVar[int] = 409

    def __init__(self, record: ProcessRecord) -> None:
        super().__init__(
            f"{record.name} runs already as process {record.pid}; its log is {record.log}.",
            "Stop it first with `xmcloud down`.",
        )


class ProcessDied(XmcloudError):
    """A process ended before it was ready; `exit_code` is None where it cannot be known."""

    slug, title = "process-died", "A local process ended"

    def __init__(self, record: ProcessRecord, exit_code: int | None) -> None:
        code = "" if exit_code is None else f" with exit code {int(exit_code)}"
        super().__init__(
            f"{record.name} ended{code} before it was ready.",
            f"Correct what its log says and start it again. {_end_of_log(record.log)}",
        )
        self.exit_code = exit_code


class NotReady(XmcloudError):
    """A process lives but did not answer in time."""

    slug, title = "process-not-ready", "A local process does not answer"

    def __init__(self, record: ProcessRecord, seconds: float) -> None:
        super().__init__(
            f"{record.name} did not answer within {seconds:g} s.",
            f"Look for the reason in its log, or allow it more time. {_end_of_log(record.log)}",
        )


class PortTaken(XmcloudError):
    """Something else listens on a port that was asked for."""

    slug, title = "port-taken", "The port is taken"
    status: ClassVar[int] = 409

    def __init__(self, port: int) -> None:
        super().__init__(
            f"Port {port} of {LOOPBACK} is taken by another program.",
            "Stop that program, choose another port, or name none to get a free one.",
        )


class StillAlive(XmcloudError):
    """Processes survived SIGKILL, or belong to another user."""

    slug, title = "process-still-alive", "A local process cannot be stopped"

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        pids = ",".join(str(process.pid) for process in processes)
        super().__init__(
            f"These processes could not be stopped: {pids}.",
            f"See what they wait for with `ps -o pid,user,stat,wchan,args -p {pids}`.",
        )


class DamagedRecords(XmcloudError):
    """The file that lists the processes cannot be understood."""

    slug, title = "damaged-process-records", "The list of local processes is damaged"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} does not hold a list of processes.",
            f"End what `ps -ef` still shows of them by hand, then remove {path}.",
        )


class Processes:
    """The background processes of one home folder, on record in its `processes.json`."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._path = self._home / "processes.json"

    def records(self) -> list[ProcessRecord]:
        """What was started and not stopped since, alive or not. Raises DamagedRecords."""
        try:
            return _RECORDS.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except ValidationError as error:
            raise DamagedRecords(self._path) from error

    def start(
        self,
        name: str,
        argv: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        takes_over: bool = False,
    ) -> ProcessRecord:
        """Start `argv` with `variables` added to the environment; its output goes to a log file.

        What an earlier process of that name left running belongs to one that `takes_over`; others
        are not started beside it. Raises AlreadyRunning and NotStarted.
        """
        with self._locked():
            others, mark = [], secrets.token_hex(16)
            for record in self.records():
                if record.name != name:
                    others.append(record)
                elif alive(record) or (members(record) and not takes_over):
                    raise AlreadyRunning(record)
                elif takes_over:
                    mark = record.mark
            log = self._home / "logs" / f"{name}.log"
            environ = {**os.environ, **(variables or {}), MARK_VARIABLE: mark}
            record = _spawn(name, argv, environ, log)
            try:
                self._write([*others, record])
            except BaseException:
                stop([record], grace_seconds=0)
                raise
        return record

    def stop(
        self, grace_seconds: float, names: Collection[str] | None = None
    ) -> list[ProcessRecord]:
        """Stop the named processes, or all, as `stop` does; they leave the record when gone."""
        with self._locked():
            records = self.records()
            chosen = [record for record in records if names is None or record.name in names]
            stopped = stop(chosen, grace_seconds)
            self._write([record for record in records if record not in chosen])
        return stopped

    @contextmanager
    def _locked(self) -> Iterator[None]:
        (self._home / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._home / "processes.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, records: list[ProcessRecord]) -> None:
        written = self._path.with_suffix(".json.new")
        written.unlink(missing_ok=True)
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_RECORDS.dump_json(records, indent=2))
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._path)


def alive(record: ProcessRecord) -> bool:
    """Whether the process itself still runs; its children may although it does not."""
    leader = _leader(record)
    return leader is not None and lives(leader)


def lives(process: psutil.Process) -> bool:
    """Whether it runs; one that ended and was not yet collected by its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def members(record: ProcessRecord) -> list[psutil.Process]:
    """Every living process that came from it: itself, its descendants, its process group."""
    everything = list(psutil.process_iter())
    found = {process for process in everything if _carries(process, record.mark)}
    leader = _leader(record)
    if leader is not None:
        with suppress(psutil.NoSuchProcess):
            found.update([leader, *leader.children(recursive=True)])
    # The number of a group stays taken while a member is left, so one known member vouches for it.
    if any(_group(process) == record.pgid for process in found):
        found.update(process for process in everything if _group(process) == record.pgid)
    return [process for process in found if lives(process)]


def stop(records: Sequence[ProcessRecord], grace_seconds: float) -> list[ProcessRecord]:
    """Send SIGTERM to all of each, SIGKILL to what is left after the grace time.

    Returns the records of which anything was alive. Raises StillAlive.
    """
    found = {record: members(record) for record in records}
    left = {process for processes in found.values() for process in processes}
    _send(left, signal.SIGTERM)
    left = _wait(left, grace_seconds)
    deadline = time.monotonic() + _KILL_SECONDS
    # Again, as long as a process that was just starting another one comes to light.
    while left := {p for p in left if lives(p)}.union(*(members(record) for record in records)):
        if time.monotonic() > deadline:
            raise StillAlive(left)
        _send(left, signal.SIGKILL)
        _wait(left, _KILL_SECONDS)
    for record in records:
        with suppress(ChildProcessError):
            os.waitpid(record.pid, os.WNOHANG)
    return [record for record, processes in found.items() if processes]


def wait_until_ready(
    record: ProcessRecord, probe: Callable[[], bool], timeout_seconds: float
) -> None:
    """Return when `probe` says yes. Raises ProcessDied as soon as the process ends, or NotReady."""
    leader = _leader(record)
    if leader is None:
        raise ProcessDied(record, None)
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            exit_code = leader.wait(_POLL_SECONDS)
        except psutil.TimeoutExpired:
            if probe():
                return
        else:
            raise ProcessDied(record, exit_code)
    raise NotReady(record, timeout_seconds)


def answers(port: int, path: str) -> Callable[[], bool]:
    """A probe that says whether GET of a path on a loopback port succeeds."""

    def probe() -> bool:
        try:
            # Not through the proxy that the environment may name.
            answer = httpx.get(f"http://{LOOPBACK}:{port}{path}", timeout=2.0, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.is_success

    return probe


def free_port() -> int:
    """A loopback port that nothing listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different loopback ports that nothing listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def check_port(port: int) -> None:
    """Raise PortTaken when something listens on the loopback port."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((LOOPBACK, port))
        except OSError as error:
            raise PortTaken(port) from error


def _spawn(name: str, argv: Sequence[str], environ: dict[str, str], log: Path) -> ProcessRecord:
    try:
        # Not subprocess.Popen, which warns when the program that started a process ends before it.
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (
                    os.POSIX_SPAWN_OPEN,
                    1,
                    str(log),
                    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND,
                    0o600,
                ),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE],
        )
    except OSError as error:
        raise NotStarted(name, argv[0], os.strerror(error.errno or 0)) from error
    return ProcessRecord(
        name=name,
        pid=pid,
        pgid=pid,
        create_time=psutil.Process(pid).create_time(),
        mark=environ[MARK_VARIABLE],
        argv=tuple(argv),
        log=log,
    )


def _leader(record: ProcessRecord) -> psutil.Process | None:
    """The process on record, a zombie included, unless its pid belongs to another one now."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(record.pid)
        if abs(process.create_time() - record.create_time) < _CLOCK_CORRECTION_SECONDS:
            return process
    return None


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK_VARIABLE) == mark
    except psutil.Error:  # gone, or another user's
        return False


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)


def _wait(processes: Iterable[psutil.Process], seconds: float) -> set[psutil.Process]:
    """Those that are still alive after that time."""
    deadline = time.monotonic() + seconds
    left = {process for process in processes if lives(process)}
    while left and (remaining := deadline - time.monotonic()) > 0:
        # In steps, since a zombie that nobody collects would count as waited for until the end.
        psutil.wait_procs(left, timeout=min(remaining, 0.1))
        left = {process for process in left if lives(process)}
    return left


def _end_of_log(log: Path, lines: int = 15) -> str:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
        end = file.read().decode(errors="replace").splitlines()[-lines:]
    if not end:
        return f"Its log {log} is empty."
    return "\n".join([f"Its log {log} ends:", *(f"  {line}" for line in end)])
