"""Starts the command of a container: fills in addresses, and tells the control plane how it goes.

It lies in the images that are built here, and runs under whatever Python from 3.6 on they have:
the standard library is all it may use, and annotations are texts.
"""

import base64
import contextlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Texts = dict[str, str]
    Fields = dict[str, Any]

PIECE_BYTES, MEMORY_BYTES = 256 * 1024, 64 * 1024 * 1024
BATCH_SECONDS, HEARTBEAT_SECONDS, ANSWER_SECONDS, TERMINAL_SECONDS = 1.0, 30.0, 30.0, 5.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LAST_TRIES_SECONDS = 0.5, 10.0, 60.0
GRACE_SECONDS, TELLING_SECONDS, ORPHANS_SECONDS = 10.0, 2.0, 2.0
RESULTS_LIMIT, LAST_BYTES, LAST_LINES = 16 * 1024, 3000, 20
NOT_EXECUTABLE, NOT_FOUND = 126, 127

NAMED = re.compile(r"%objectname\(([^()]*)\)%")
OWN = ("XMCLOUD_", "CLUSTER_SPEC")
SECRETS = ("XMCLOUD_ATTEMPT_TOKEN", "XMCLOUD_URL")
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
OVER, TEMPORARY = (404, 409), (408, 429)
IDENTITY = "computeMetadata/v1/instance/service-accounts/default/identity"


class UnknownName(Exception):
    """An argument or a variable names a job that the group does not have."""


class GaveUp(Exception):
    """The control plane takes no more reports."""


class Over(GaveUp):
    """The attempt is over."""


def main(command: "list[str]") -> int:
    """The exit code of the command; without an attempt to tell of, the command takes our place."""
    environment = dict(os.environ)
    attempt = Attempt(environment) if reports_here(environment) else None
    await_terminal()
    try:
        words, variables = bound(command, environment)
        if attempt is not None:
            return supervised(attempt, words, variables)
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(words[0], words, variables)  # noqa: S606 - the command is the user's own
    except (UnknownName, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        message = f"Cannot start {command[0]!r}: {why}."
        say(message)
        if attempt is not None:
            Reporter(attempt, Log(), lambda _: None).finish(end("failed", "setup_failed", message))
        return NOT_EXECUTABLE if isinstance(error, PermissionError) else NOT_FOUND


def await_terminal() -> None:
    """Whoever attaches misses what was written before; until then a terminal has no size."""
    deadline = time.monotonic() + TERMINAL_SECONDS
    while os.isatty(0) and not os.get_terminal_size(0).columns and time.monotonic() < deadline:
        time.sleep(0.05)


def say(text: str) -> None:
    write(2, f"xmcloud: {text}\n".encode(errors="backslashreplace"))


def bound(command: "list[str]", environment: "Texts") -> "tuple[list[str], Texts]":
    """The command and its variables with the addresses filled in. Raises `UnknownName`."""
    peers, pools = addresses(environment)
    fill = filler(environment, peers, pools)
    variables = {
        name: value if name.startswith(OWN) else fill(value)
        for name, value in environment.items()
        if "XMCLOUD_ATTEMPT_TOKEN" not in environment or name not in SECRETS
    }
    if peers:
        variables["XMCLOUD_PEERS"] = json.dumps(peers)
    variables.setdefault("PYTHONUNBUFFERED", "1")
    return [fill(word) for word in command], variables


def addresses(environment: "Texts") -> "tuple[Texts, Texts]":
    """HOST:PORT of the jobs of the group by name, and as pools: `workerpool0` is the first."""
    cluster = parsed(environment.get("CLUSTER_SPEC"), dict).get("cluster", {})
    pools = {pool: hosts[0] for pool, hosts in cluster.items() if hosts}
    names = parsed(environment.get("XMCLOUD_POOLS"), list) or [environment.get("XMCLOUD_JOB_NAME")]
    numbered = ((name, f"workerpool{index}") for index, name in enumerate(names))
    peers = {name: pools[pool] for name, pool in numbered if name and pool in pools}
    peers.update(parsed(environment.get("XMCLOUD_PEERS"), dict))
    by_number = {f"workerpool{index}": address for index, address in enumerate(peers.values())}
    return peers, dict(by_number, **pools)


def parsed(text: "str | None", kind: "type[Any]") -> "Any":
    """The JSON value of that type; an empty one where there is none."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return kind()
    return value if isinstance(value, kind) else kind()


def filler(environment: "Texts", peers: "Texts", pools: "Texts") -> "Callable[[str], str]":
    """Replaces `%objectname(NAME)%`, and the full name of a job before a port."""
    known = dict(pools, **peers)
    prefix = f"{environment.get('XMCLOUD_EXPERIMENT_ID')}_{environment.get('XMCLOUD_UNIT')}_"
    names = "|".join(map(re.escape, sorted(peers, key=len, reverse=True)))
    full_name = re.compile(rf"(?<![\w-]){re.escape(prefix)}({names})(?=:\d)")

    def address(found: "re.Match[str]") -> str:
        name = found.group(1)
        name = name[len(prefix) :] if name.startswith(prefix) else name  # noqa: FURB188 - 3.9
        if name not in known:
            raise UnknownName(f"{found.group()} names none of {', '.join(known)}")
        return known[name]

    def fill(text: str) -> str:
        text = NAMED.sub(address, text) if known else text
        if not peers:
            return text
        return full_name.sub(lambda found: peers[found.group(1)].rpartition(":")[0], text)

    return fill


def reports_here(environment: "Texts") -> bool:
    """Whether this process tells of its attempt: of several replicas, the first does."""
    needed = ("XMCLOUD_URL", "XMCLOUD_JOB_ID", "XMCLOUD_ATTEMPT", "XMCLOUD_ATTEMPT_TOKEN")
    if not all(environment.get(name) for name in needed):
        return False
    if "XMCLOUD_REPORTS" in environment:
        return environment["XMCLOUD_REPORTS"] == "1"
    task = parsed(environment.get("CLUSTER_SPEC"), dict).get("task", {})
    return not task.get("index") and environment.get("JOB_COMPLETION_INDEX", "0") == "0"


def supervised(attempt: "Attempt", command: "list[str]", environment: "Texts") -> int:
    """Tells of the command while it runs. Raises OSError if it cannot start."""
    own = os.path.join(environment.get("TMPDIR", "/tmp"), f"xmcloud-{os.getpid()}.json")  # noqa: S108
    results = environment.setdefault("XMCLOUD_RESULTS", own)
    log, process = Log(), Supervised(command, environment)
    reporter = Reporter(attempt, log, process.stop)
    process.pass_on(log, reporter.wrote)
    code = process.wait()
    found, unusable = read_results(results)
    if unusable:
        unusable = f"the file of results is ignored: {unusable}"
        say(unusable)
        log.write(f"xmcloud: {unusable}\n".encode())
    reporter.finish(process.ending(code, log.last_lines(), found))
    return code if code >= 0 else 128 - code


class Supervised:
    """A command in a process group of its own, which hears what we are told."""

    def __init__(self, command: "list[str]", environment: "Texts") -> None:
        self._preempted = self._started = False
        self._stop_message: str | None = None
        self._grace = float(environment.get("XMCLOUD_GRACE_SECONDS") or GRACE_SECONDS)
        self._killer: threading.Timer | None = None
        for number in FORWARDED:
            signal.signal(number, self._forward)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=environment, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self._started = True
        if self._preempted:
            self._end(self._grace)

    def pass_on(self, log: "Log", wrote: "Callable[[], None]") -> None:
        """Copies what it writes to our own output and to the log."""
        self._pumps = [
            threading.Thread(target=pump, args=(pipe, own, log, wrote), daemon=True)
            for pipe, own in ((self._process.stdout, 1), (self._process.stderr, 2))
        ]
        for thread in self._pumps:
            thread.start()

    def stop(self, message: str) -> None:
        """The control plane wants its end; the first time counts."""
        if self._stop_message is None:
            self._stop_message = message
            self._end(self._grace)

    def wait(self) -> int:
        """Its exit code, negative for a signal; as process 1, we also bury what it left behind."""
        pid, status = 0, 0
        while pid != self._process.pid:
            pid, status = os.waitpid(-1, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._process.returncode = code
        self._signal(signal.SIGKILL)
        for thread in self._pumps:
            thread.join(ORPHANS_SECONDS)
        return code

    def ending(self, code: int, lines: str, results: "Fields") -> "Fields":
        if self._stop_message is not None:
            return end("stopped", "stop_requested", self._stop_message or "stop requested", code)
        if code == 0:
            return end("completed", "exited", "completed", 0, results)
        if self._preempted:
            return end("released", "preempted", "the platform ended the container", code)
        after = f"\n{lines}" if lines else ""
        if code > 0:
            return end("failed", "exited", f"exited with code {code}{after}", code, results)
        name = next((known.name for known in signal.Signals if known == -code), str(-code))
        why = " (the system does that when memory runs out)" if name == "SIGKILL" else ""
        message = f"killed by signal {name}{why}{after}"
        return end("failed", "signaled", message, code, results)

    def _forward(self, number: int, _: object) -> None:
        if number == signal.SIGTERM and not self._preempted:
            self._preempted = True
            # The platform ends us too after the grace; before, its end is to be told.
            self._end(max(self._grace - TELLING_SECONDS, self._grace / 2))
        else:
            self._signal(number)

    def _end(self, grace: float) -> None:
        if self._started and self._killer is None:
            self._signal(signal.SIGTERM)
            self._killer = threading.Timer(grace, self._signal, (signal.SIGKILL,))
            self._killer.daemon = True
            self._killer.start()

    def _signal(self, number: int) -> None:
        if self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def end(
    outcome: str, reason: str, message: str, code: "int | None" = None, results: Any = None
) -> "Fields":
    exit_code = code if code is None or code >= 0 else 128 - code
    told = {"code": reason, "message": message[:4000], "exit_code": exit_code}
    return {"outcome": outcome, "reason": told, "results": results or {}}


def pump(pipe: "Any", own: int, log: "Log", wrote: "Callable[[], None]") -> None:
    with pipe:
        for data in iter(lambda: os.read(pipe.fileno(), 65536), b""):
            log.write(data)
            wrote()
            write(own, data)


def write(own: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads our own output any more; the log has it
        while data:
            data = data[os.write(own, data) :]


def read_results(path: str) -> "tuple[Fields, str]":
    """What the command wrote as its results, and why that cannot be taken."""
    try:
        with open(path, "rb") as file:
            written = file.read(RESULTS_LIMIT + 1)
        if len(written) > RESULTS_LIMIT:
            return {}, f"it has more than {RESULTS_LIMIT:,} bytes"
        results = json.loads(written.decode(), parse_constant=int)  # NaN is none
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError, RecursionError) as error:
        return {}, str(error)
    return (results, "") if isinstance(results, dict) else ({}, "it holds no JSON object")


class Log:
    """Output that was not told yet: in memory, and in a file when that becomes too much."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - ends with us
        self._lock = threading.Lock()
        self._read, self._written = 0, 0
        self._tail = b""
        self.told = 0

    @property
    def waiting(self) -> int:
        return self._written - self._read

    def write(self, data: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):  # a full disk; it is in our own output too
            self._tail = (self._tail + data)[-LAST_BYTES:]
            self._file.seek(self._written)
            self._file.write(data)
            self._written += len(data)

    def piece(self) -> bytes:
        with self._lock:
            self._file.seek(self._read)
            return self._file.read(min(PIECE_BYTES, self.waiting))

    def taken(self, size: int) -> None:
        with self._lock:
            self.told += size
            self._read += size
            if not self.waiting:
                self._file.truncate(0)
                self._read, self._written = 0, 0

    def last_lines(self) -> str:
        text = self._tail.decode("utf-8", "replace")
        lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
        return "\n".join(lines[-LAST_LINES - 1 :]).strip("\n")


class Attempt:
    """Which try at which job this is, and where the control plane hears of it."""

    def __init__(self, environment: "Texts") -> None:
        self._job, self._fence = environment["XMCLOUD_JOB_ID"], int(environment["XMCLOUD_ATTEMPT"])
        url = environment["XMCLOUD_URL"].rstrip("/")
        self._url = f"{url}/v1/attempts/{self._job}/{self._fence}/reports"
        bearer = f"Bearer {environment['XMCLOUD_ATTEMPT_TOKEN']}"
        self._headers = {"Content-Type": "application/json", "Authorization": bearer}

    def report(self, event: str, fields: "Fields") -> "Fields":
        return dict(fields, event=event, job_id=self._job, fence=self._fence)

    def send(self, reports: "list[Fields]") -> "Fields":
        """The answer. Raises `GaveUp`, and OSError, ValueError or HTTPException without one."""
        body = json.dumps({"reports": reports}).encode()
        request = urllib.request.Request(self._url, body, self._headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:  # noqa: S310
                return parsed(response.read().decode(), dict)  # type: ignore[no-any-return]
        except urllib.error.HTTPError as error:
            with error:
                problem = parsed(error.read().decode("utf-8", "replace"), dict)
            ours = str(problem.get("type")).startswith("urn:xmcloud:")
            if not ours and error.code in (401, 403):
                self._identify()
            if error.code >= 500 or error.code in TEMPORARY or not ours:
                raise
            refusal = f"HTTP {error.code} {problem.get('detail')}"
            raise (Over if error.code in OVER else GaveUp)(refusal) from None

    def _identify(self) -> None:
        """The gate of Cloud Run knows Google's accounts alone: the next request shows ours."""
        host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
        url = f"http://{host}/{IDENTITY}?audience={self._url.partition('/v1/')[0]}"
        request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
        here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            with here.open(request, timeout=TERMINAL_SECONDS) as response:
                token = response.read().decode("ascii").strip()
            self._headers["X-Serverless-Authorization"] = f"Bearer {token}"


class Reporter:
    """Tells of an attempt, in a thread, until its end was taken or that makes no sense any more."""

    def __init__(self, attempt: Attempt, log: Log, stop: "Callable[[str], None]") -> None:
        self._attempt, self._log, self._stop = attempt, log, stop
        self._changed = threading.Condition()
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._first = [attempt.report("started", {"at": at})]
        self._ending: dict[str, Any] | None = None
        self._give_up_at = float("inf")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wrote(self) -> None:
        with self._changed:
            self._changed.notify()

    def finish(self, ending: "Fields") -> None:
        """Returns when the end was taken, or could not be told for a minute."""
        with self._changed:
            self._ending = ending
            self._give_up_at = time.monotonic() + LAST_TRIES_SECONDS
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._wait(pause)
            try:
                if self._tell():
                    return
                pause = 0.0
            except GaveUp as error:
                say(f"the control plane takes no more reports: {error}")
                if isinstance(error, Over):
                    self._stop(str(error))
                return
            except (OSError, ValueError, http.client.HTTPException) as error:
                pause = min(max(2 * pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                if time.monotonic() + pause > self._give_up_at:
                    say(f"the control plane was not told of the end: {error}")
                    return

    def _wait(self, pause: float) -> None:
        """Until there is something to tell, which is told together with what follows soon."""
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
        with self._changed:
            if pause == 0 and self._changed.wait_for(self._news, HEARTBEAT_SECONDS):
                self._changed.wait_for(lambda: self._news(PIECE_BYTES), BATCH_SECONDS)

    def _news(self, size: int = 1) -> bool:
        return bool(self._first or self._ending) or self._log.waiting >= size

    def _tell(self) -> bool:
        """Whether the end was taken."""
        ending, piece = self._ending, self._log.piece()
        reports = list(self._first)
        if piece:
            data = {"offset": self._log.told, "data": base64.b64encode(piece).decode()}
            reports.append(self._attempt.report("output", data))
        if ending is not None and len(piece) == self._log.waiting:
            reports.append(self._attempt.report("finished", ending))
        answer = self._attempt.send(reports)
        results = answer.get("results", [])
        if len(results) != len(reports):
            raise ValueError("the answer is none of a control plane")
        for report, result in zip(reports, results):  # noqa: B905 - Python 3.9
            self._taken(report, result.get("problem"), len(piece))
        if answer.get("stop"):
            self._stop(answer["stop"].get("message", ""))
        return bool(reports) and reports[-1]["event"] == "finished" and ending is self._ending

    def _taken(self, report: "Fields", problem: "Fields | None", size: int) -> None:
        if problem is None:
            self._first = []
            self._log.taken(size if report["event"] == "output" else 0)
            return
        detail, over = problem.get("detail", ""), problem.get("status") in OVER
        if over or report["event"] != "finished" or report["reason"]["code"] == "setup_failed":
            raise (Over if over else GaveUp)(detail)
        message = f"the report of its end was refused: {detail} ({report['outcome']})"
        self._ending = end("failed", "setup_failed", message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
