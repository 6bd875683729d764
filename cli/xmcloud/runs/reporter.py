"""The process beside a script that captures it and reports on it.

It is started by the script's first line and ends soon after the script. What it does costs the
script nothing: neither its imports nor the network, nor git. A script that is killed cannot say
so; the reporter sees it.
"""

import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from pydantic import JsonValue, ValidationError

from xmcloud.core.errors import LeaseLost, Unavailable, XmcloudError
from xmcloud.runs.capture.packages import imported
from xmcloud.runs.capture.source import Captured, Snapshot, capture, snapshot
from xmcloud.runs.facts import Facts
from xmcloud.runs.printed import Printed
from xmcloud.runs.process import ScriptProcess
from xmcloud.runs.recorded import Recorded, add_notes, new_experiment
from xmcloud.runs.recovery import recorded, recover
from xmcloud.runs.session import RunClient
from xmcloud.runs.spool import remove
from xmcloud.runs.storing import cut, stored
from xmcloud.runs.story import Story, silent_end
from xmcloud.xm_cloud.places import address

SETTLE_SECONDS = 30.0
"""How long the first parameters and imports are waited for; what comes later is in the results."""

LAST_SECONDS = 60.0
"""How long what is left is tried to be told once the script is over."""

_LOOK_SECONDS = 1.0
_SHORT_SECONDS = 0.05
_LISTED = 100

_SILENCES = 3
"""A process that is gone may have children that keep its pipe open: then it just falls silent."""


class Script:
    """The other end: what it tells, and what it is told."""

    def __init__(self, told: IO[bytes], back: IO[bytes]) -> None:
        self._told, self._back = told, back
        self._inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.story = Story(Facts(**_without_kind(json.loads(told.readline()))))
        self.process = ScriptProcess(self.story.facts.pid)
        self._silences = 0
        threading.Thread(target=self._read, daemon=True).start()

    def say(self, text: str) -> None:
        """One line for people."""
        self._write({"kind": "say", "text": text})

    def look(self) -> None:
        """Asks for what is imported now."""
        self._write({"kind": "look"})

    def news(self) -> None:
        """Wakes whoever listens: the control plane has something to say."""
        self._inbox.put({"kind": "news"})

    def listen(self, seconds: float) -> bool:
        """Takes what it tells within that time; whether there was news of the control plane."""
        try:
            message = self._inbox.get(timeout=max(seconds, _SHORT_SECONDS))
        except queue.Empty:
            self._silences = 0 if self.process.alive() else self._silences + 1
            if self._silences == _SILENCES:
                self.story.ended = silent_end()
            return False
        if message is None:
            self._nothing_follows(seconds)
            return False
        self.story.take(message)
        return bool(message["kind"] == "news")

    def _nothing_follows(self, seconds: float) -> None:
        """The process is over, or has become another program, which is waited for."""
        if self.story.ended is None and not self.process.alive():
            self.story.ended = silent_end()
        elif self.story.ended is None:
            time.sleep(max(seconds, _SHORT_SECONDS))
            self._inbox.put(None)

    def _read(self) -> None:
        for line in self._told:
            self._inbox.put(json.loads(line))
        self._inbox.put(None)

    def _write(self, message: dict[str, Any]) -> None:
        try:
            self._back.write(json.dumps(message).encode() + b"\n")
            self._back.flush()
        except (BrokenPipeError, ValueError):
            return


def _without_kind(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "kind"}


def report(script: Script, client: RunClient) -> None:
    """From the beginning of the run to its end. Raises as `Client` does, and OSError."""
    story = script.story
    taken = snapshot(story.facts)
    experiment = new_experiment(client, story.facts)
    script.say(f"recorded as experiment {experiment}")
    with recovering(script, client, experiment):
        follow(script, client, taken, experiment)


def follow(script: Script, client: RunClient, taken: Snapshot, experiment: str) -> None:
    """Captures it, and tells of it until it has ended."""
    story = script.story
    settle(script)
    captured = capture(taken, story.facts, story.modules, story.files, client)
    for note in captured.notes:
        script.say(note)
    add_notes(client, experiment, captured.notes)
    run = Recorded.make(client, experiment, story, captured)
    threading.Thread(target=hear, args=(client, run.session, script), daemon=True).start()
    printed = Printed(Path(story.facts.output))
    accompany(script, run, printed)
    say_farewell(script, client, run, captured, printed)


@contextmanager
def recovering(script: Script, client: RunClient, experiment: str) -> Iterator[None]:
    """Should this process die, another finds what is left; meanwhile it does so for others."""
    facts = script.story.facts
    spool = Path(facts.spool)

    def work() -> None:
        try:
            for line in recover(client, spool):
                script.say(line)
        except (XmcloudError, OSError) as error:
            script.say(f"what an earlier run left behind is still here: {error}")

    with ExitStack() as stack:
        try:
            stack.enter_context(recorded(spool, client.url, experiment, facts.pid))
        except OSError as error:
            script.say(f"this run is lost if its reporter dies: {error}")
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield
        thread.join()


def settle(script: Script) -> None:
    """Waits until the script's imports and parameters can be expected to be known."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not script.story.settled and (now := time.monotonic()) < deadline:
        script.look()
        while not script.story.settled and time.monotonic() < now + _LOOK_SECONDS:
            script.listen(now + _LOOK_SECONDS - time.monotonic())


def hear(client: RunClient, session: str, script: Script) -> None:
    """Passes on that somebody wants the run to stop."""
    while True:
        try:
            if client.wait_for_news(session):
                script.news()
        except XmcloudError:
            time.sleep(_LOOK_SECONDS)


def accompany(script: Script, run: Recorded, printed: Printed) -> None:
    """Keeps the lease until the script is over, and stops it when it is asked to."""
    due = 0.0
    while script.story.ended is None:
        if time.monotonic() >= due or (run.taken and printed.ripe):
            due = time.monotonic() + beat(script, run, printed)
        if script.listen(min(_LOOK_SECONDS, due - time.monotonic())):
            due = 0.0


def beat(script: Script, run: Recorded, printed: Printed) -> float:
    """Seconds until the next one."""
    try:
        if run.tell(printed).stops:
            script.process.stop()
    except Unavailable:
        return _LOOK_SECONDS
    return run.heartbeat_seconds if run.taken else min(run.heartbeat_seconds, 5.0)


def say_farewell(
    script: Script, client: RunClient, run: Recorded, captured: Captured, printed: Printed
) -> None:
    """Insists for a while that the end is heard."""
    story = script.story
    assert story.ended is not None
    deadline = time.monotonic() + LAST_SECONDS
    while True:
        try:
            found, notes = stored(client, Path(story.facts.spool))
            run.tell_all(printed)
            run.finish(story.ended, cut(client, {**found, **later(story, run, captured)}))
            break
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)
    for note in notes:
        script.say(note)
    remove(story.facts.spool)


def later(story: Story, run: Recorded, captured: Captured) -> dict[str, JsonValue]:
    """What was imported, or found on the command line, after the job was made."""
    known = set(captured.executable.requirements.split("\n"))
    found = imported(story.modules, story.facts.path).requirements
    packages: list[JsonValue] = [line for line in found if line not in known]
    arguments: dict[str, JsonValue] = {
        a.name: a.value
        for a in story.arguments
        if a.name is not None and a not in run.job.spec.arguments
    }
    results: dict[str, JsonValue] = {}
    if packages:
        results["packages"] = packages[:_LISTED]
    if arguments:
        results["parameters"] = dict(list(arguments.items())[:_LISTED])
    return results


def main() -> None:
    script = Script(sys.stdin.buffer, sys.stdout.buffer)

    def failed(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
        script.say(f"this run is not recorded: {type(error).__name__}: {error}")

    sys.excepthook = failed
    try:
        place = address()
        with RunClient(place.url, place.credentials) as client:
            report(script, client)
    except LeaseLost:
        script.say("the control plane has given this run up: it did not hear of it for too long")
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        script.say(f"this run is not recorded: {fault['loc'][0]}: {fault['msg']}")
    except (XmcloudError, OSError) as error:
        script.say(f"this run is not recorded: {error}")


if __name__ == "__main__":
    main()
