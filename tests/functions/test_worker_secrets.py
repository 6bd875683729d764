"""Secrets on a real worker: its jobs receive them, and nothing else shows them."""

import base64
import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.functions.real_workers import LONG, Plane, new_job, opened_plane
from xmcloud.core.audit import Audit
from xmcloud.core.models import Job, JobState, ReasonCode
from xmcloud.core.specs import Command

_VALUE = "hunter22/&hunter?22"
_FORMS = (
    _VALUE.encode(),
    base64.b64encode(_VALUE.encode()),
    quote(_VALUE, safe="").encode(),
    _VALUE[:12].encode(),
)
_STARS = "*" * len(_VALUE)
_DIGEST = hashlib.sha256(_VALUE.encode()).hexdigest()

_TELL = """
import base64, hashlib, json, os, pathlib, sys, time, urllib.parse
def wait(name):
    while not os.path.exists(name): time.sleep(0.01)
def say(text): print(text, end="", flush=True)
value = os.environ["KEY"]
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """With a worker."""
    with opened_plane(tmp_path_factory.mktemp("plane")) as plane:
        _set(plane, "wandb", _VALUE)
        with plane.worker():
            yield plane


def _set(plane: Plane, name: str, value: str) -> None:
    path = f"/projects/default/secrets/{name}"
    plane.http.put(path, json={"value": value}).raise_for_status()


def _launch(plane: Plane, program: str, name: str = "wandb", queue: str | None = "default") -> Job:
    command = (sys.executable, "-c", _TELL + program)
    executable = Command(command=command, directory=str(plane.folder))
    return plane.launch(new_job("train", executable, queue, secrets={"KEY": name}))[0]


def _assert_nowhere(folder: Path, *answers: str) -> None:
    """In no byte of any file that is left, and in no answer."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"store.db", "secrets", "queue.db"} <= {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        assert not any(form in content for form in _FORMS), path
    for answer in answers:
        assert not any(form.decode() in answer for form in _FORMS)


def test_a_job_has_its_secret_and_nobody_else_sees_it(shared: Plane) -> None:
    job = _launch(
        shared,
        """
say("loss 1\\n" + value[:12])
wait("go")
say(value[12:] + "\\nloss 2\\n")
print(base64.b64encode(value.encode()).decode(), urllib.parse.quote(value, safe=""))
print("\\r10%\\r" + value + "\\r100% " + value)
results = {"digest": hashlib.sha256(value.encode()).hexdigest(), "key": value, value: [value]}
pathlib.Path(os.environ["XMCLOUD_RESULTS"]).write_text(json.dumps(results))
print("the last words:", value)
""",
    )
    shared.wrote(job, "loss 1\n")
    assert shared.log(job) == "loss 1\n"
    (raw,) = (shared.folder / "workers/workers/ant/attempts").glob(f"{job.id}-*/output.log")
    assert raw.stat().st_mode & 0o777 == 0o600
    (shared.folder / "go").touch()
    job = shared.over(job)
    log = shared.log(job)
    assert job.results == {"digest": _DIGEST, "key": _STARS, _STARS: [_STARS]}
    assert log.startswith(f"loss 1\n{_STARS}\nloss 2\n")
    assert log.endswith(f"100% {_STARS}\nthe last words: {_STARS}\n")
    _until_gone(raw)
    answers = [shared.http.get(path).text for path in (f"/jobs/{job.id}", "/audit")]
    _assert_nowhere(shared.folder, log, *answers)


def test_the_reason_of_a_failure_hides_it_too(shared: Plane) -> None:
    job = shared.over(_launch(shared, "sys.exit('cannot log in with ' + value)"))
    assert job.reason.message == f"exited with code 1\ncannot log in with {_STARS}"
    _until_gone(*(shared.folder / "workers/workers/ant/attempts").glob(f"{job.id}-*"))
    _assert_nowhere(shared.folder, job.model_dump_json())


def test_a_secret_that_was_removed_meanwhile_fails_the_job(shared: Plane) -> None:
    _set(shared, "gone", _VALUE)
    job = _launch(shared, "", "gone", queue=None)
    shared.http.request("DELETE", "/projects/default/secrets/gone").raise_for_status()
    shared.enqueue(job)
    job = shared.over(job)
    assert (job.state, job.reason.code) == (JobState.FAILED, ReasonCode.SETUP_FAILED)
    assert job.reason.message == (
        "Cannot get the secrets of this job: Project default has no secret 'gone'."
        " Set it: xmcloud secret set gone"
    )


_LIVES_ON = """
say("before\\n")
wait("killed")
say("meanwhile " + value + "\\n")
wait("back")
say("after " + value + "\\n")
sys.exit("it was " + value)
"""


def test_a_worker_that_comes_back_masks_what_it_sends(tmp_path: Path) -> None:
    with opened_plane(tmp_path) as plane:
        _set(plane, "same", _VALUE)
        _set(plane, "changed", _VALUE)
        same, changed = _launch(plane, _LIVES_ON, "same"), _launch(plane, _LIVES_ON, "changed")
        with plane.worker(slots=2) as first:
            for job in (same, changed):
                plane.wrote(job, "before\n")
            first.process.kill()
            first.process.wait()
            (tmp_path / "killed").touch()
        _set(plane, "changed", "quite another value")
        with plane.worker(slots=2) as second:
            (tmp_path / "back").touch()
            same, changed = plane.over(same), plane.over(changed)
        logs = plane.log(same), plane.log(changed)
        assert logs[0] == f"before\nmeanwhile {_STARS}\nafter {_STARS}\nit was {_STARS}\n"
        assert logs[1].startswith("before\n**********")
        assert set(logs[1].removeprefix("before\n")) == {"*", "\n"}
        assert changed.reason.message == "exited with code 1"
        assert "masks all output" in second.output
        query = f"/audit?subject=jobs/{same.id}"
        audit = Audit.model_validate_json(plane.http.get(query).content)
        assert [each.action for each in audit.entries].count("resolve_secrets") == 2
        _assert_nowhere(tmp_path, *logs, same.model_dump_json(), changed.model_dump_json())


def _until_gone(*paths: Path) -> None:
    deadline = time.monotonic() + LONG
    while any(path.exists() for path in paths):
        assert time.monotonic() < deadline, paths
        time.sleep(0.01)
