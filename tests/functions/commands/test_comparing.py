"""`clone`, `diff` and `repro` over a real control plane and a worker that tells what it ran."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from click.testing import Result

from tests.functions.commands.running import answer, xmcloud
from tests.functions.xm_cloud.server import End, Worker
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.core.models import Execution, Job
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Argument, Command, GitSource, JobSpec, Limits, PythonSource
from xmcloud.xm_cloud.client import Client

OLD, NEW = "a" * 40, "b" * 40
ARCHIVE = "0123456789abcdef" * 4


def spec(rate: float = 0.1, **fields: Any) -> JobSpec:
    base = {
        "executable": Command(command=("train",)),
        "arguments": (Argument(name="lr", value=rate),),
    }
    return JobSpec(**{**base, **fields})


def launched(client: Client, *specs: JobSpec) -> str:
    """An experiment with a draft for each."""
    experiment = client.create_experiment(NewExperiment(title="sweep")).id
    jobs = [NewJob(name="train", spec=each, queue=None) for each in specs]
    client.add_units(experiment, NewUnits(units=tuple(NewUnit(jobs=(job,)) for job in jobs)))
    return experiment


def jobs_of(client: Client, experiment: str) -> list[Job]:
    return sorted(client.jobs_of(experiment), key=lambda job: job.unit)


def put(client: Client, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    client.put_blob(digest, data)
    return digest


def ran(packages: str | None, **fields: Any) -> Execution:
    base = {"argv": ("train",), "python": "3.11.2", "host": "ant", "packages": packages}
    return Execution(**{**base, **fields})


def test_clone_tells_what_it_changed_and_what_comes_next(client: Client) -> None:
    experiment = launched(client, spec(), spec(0.2), spec(0.01))
    done = xmcloud("clone", experiment, "--set", "lr=0.01", "--queue", "high")
    assert done.stdout.endswith(": sweep (3 units in queue high)\n")
    copy = answer("list")["experiments"][0]["experiment"]["id"]
    assert done.stderr.splitlines() == [
        "parameters: lr: 0.1 -> 0.01 (in 1 of 3 jobs)",
        "parameters: lr: 0.2 -> 0.01 (in 1 of 3 jobs)",
        f"See it: xmcloud show {copy[:8]}",
    ]
    assert [(job.state, job.queue) for job in jobs_of(client, copy)] == [("queued", "high")] * 3
    xmcloud("stop", copy)
    draft = xmcloud("clone", f"{experiment}/1")
    assert "(1 draft)" in draft.stdout
    assert draft.stderr.startswith("Start it: xmcloud enqueue ")


def test_clone_at_another_commit_says_what_is_left_out(client: Client) -> None:
    source = GitSource(
        repository="https://example.com/r",
        commit=OLD,
        entrypoint=("python",),
        diff=put(client, b"diff --git a/x b/x\n+y\n"),
        bundle=ARCHIVE,
        requirements="numpy==1\n",
    )
    experiment = launched(client, spec(executable=source))
    done = xmcloud("clone", experiment, "--commit", NEW, "--requirement", "numpy==2")
    assert done.stderr.splitlines()[:3] == [
        f"code: commit: {OLD[:12]} -> {NEW[:12]}",
        "requirements: numpy: numpy==1 -> numpy==2",
        f"Left out, at {NEW[:12]}: uncommitted changes and unpushed commits of the original",
    ]
    plain = launched(client, spec())
    refused = xmcloud("clone", plain, "--commit", "main", status=ExitCode.USAGE)
    assert "no job of it runs a revision of a git repository" in refused.stderr


class _Locked(BaseHTTPRequestHandler):
    """Wants a password for everything."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
        return


def test_git_asks_no_question_for_a_commit(client: Client) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Locked) as server:
        Thread(target=server.serve_forever, args=(0.02,)).start()
        url = f"http://127.0.0.1:{server.server_port}/r.git"
        source = GitSource(repository=url, commit=OLD, entrypoint=("python",))
        experiment = launched(client, spec(executable=source))
        refused = xmcloud("clone", experiment, "--commit", "main", status=ExitCode.REFUSED)
        server.shutdown()
    assert f"git cannot read {url}: fatal: could not read Username" in refused.stderr


def test_clone_with_a_list_of_requirements(client: Client, tmp_path: Path) -> None:
    source = PythonSource(archive=ARCHIVE, entrypoint=("python",), requirements="numpy==1\n")
    experiment = launched(client, spec(executable=source))
    listed = tmp_path / "requirements.txt"
    listed.write_text("jax==1\n")
    copy = answer("clone", experiment, "--requirements", str(listed))["id"]
    (job,) = client.jobs_of(copy)
    assert job.spec.executable == source.evolve(requirements="jax==1\n")
    for text in ("-r other.txt\n", "-e .\n", "./wheel.whl\n"):
        listed.write_text(text)
        refused = xmcloud("clone", experiment, "--requirements", str(listed), status=2)
        assert "workers do not have what that names" in refused.stderr


def test_runs_that_are_equal_do_not_differ(client: Client) -> None:
    experiment = launched(client, spec())
    copy = answer("clone", experiment)["id"]
    done = xmcloud("diff", experiment, copy)
    assert done.stdout == ""
    assert "1 of 1 pairs do not differ." in done.stderr
    assert "never ran on a worker" in done.stderr
    assert answer("diff", experiment, copy)["same"] is True
    everything = xmcloud("diff", experiment, copy, "--all").stdout
    assert "lr" in everything


def test_diff_shows_every_section(client: Client, url: str) -> None:
    freezes = [put(client, text) for text in (b"numpy==1\nscipy==2\n", b"numpy==1.1\nsix==3\n")]
    executions = [ran(freezes[0]), ran(freezes[1], python="3.12.1", gpus=("0 A100",))]
    ends = [
        End(execution=execution, results={"loss": loss, "epochs": 3})
        for execution, loss in zip(executions, (0.5, 0.25), strict=True)
    ]
    token = {"API_TOKEN": "one", "SEED": "1"}
    first = launched(client, spec(environment=token, limits=Limits(retries=1)))
    second = launched(client, spec(0.2, environment={"API_TOKEN": "two"}, limits=Limits(retries=2)))
    run(client, url, first, lambda job: ends[0])
    run(client, url, second, lambda job: ends[1])
    done = xmcloud("diff", first, second, status=ExitCode.DIFFERENT)
    rows = [line.split() for line in done.stdout.splitlines()]
    for row in (
        ["lr", "0.1", "0.2"],
        ["API_TOKEN", "***", "***"],
        ["SEED", '"1"'],
        ["numpy", '"1"', '"1.1"'],
        ["scipy", '"2"'],
        ["six", '"3"'],
        ["limit.retries", "1", "2"],
        ["Python", "3.11.2", "3.12.1"],
        ["GPUs", "[]", '["0', 'A100"]'],
        ["loss", "0.5", "0.25", "-0.25"],
    ):
        assert row in rows
    assert not [row for row in rows if row[:1] in (["epochs"], ["host"], ["pool"])]
    told = answer("diff", first, second, status=ExitCode.DIFFERENT)
    changes = {(d["section"], d["name"]): d for d in told["pairs"][0]["differences"]}
    assert changes["results", "loss"]["note"] == "-0.25"
    assert changes["packages", "six"]["change"] == "added"
    assert changes["environment", "API_TOKEN"]["a"] == "***"


def run(client: Client, url: str, experiment: str, behave: Callable[[Job], End | None]) -> None:
    """Until its jobs are over."""
    with Worker(url, behave):
        xmcloud("enqueue", experiment)
        cursor = None
        while any(not job.state.terminal for job in client.jobs_of(experiment)):
            cursor = client.changes(experiment, cursor, 10).cursor


def test_units_are_paired_by_copy_or_by_number(client: Client) -> None:
    experiment = launched(client, spec(1), spec(2), spec(3))
    copy = answer("clone", f"{experiment}/2", "--set", "lr=5")["id"]
    told = answer("diff", experiment, copy, status=ExitCode.DIFFERENT)
    (pair,) = told["pairs"]
    assert (pair["a"], pair["b"]) == (f"{experiment[:8]}/2", f"{copy[:8]}/1")
    assert told["only_a"] == [f"{experiment[:8]}/1", f"{experiment[:8]}/3"]
    other = launched(client, spec(1), spec(2), spec(4))
    told = answer("diff", experiment, other, status=ExitCode.DIFFERENT)
    assert [len(pair["differences"]) for pair in told["pairs"]] == [0, 0, 1]


def test_diff_names_the_files_whose_uncommitted_changes_differ(client: Client) -> None:
    def source(text: bytes) -> GitSource:
        patch = b"diff --git a/same b/same\n+x\ndiff --git a/train.py b/train.py\n" + text
        url = "https://example.com/r"
        return GitSource(repository=url, commit=OLD, entrypoint=("x",), diff=put(client, patch))

    first, second = (launched(client, spec(executable=source(t))) for t in (b"+one\n", b"+two\n"))
    done = xmcloud("diff", first, second, status=ExitCode.DIFFERENT)
    assert done.stdout.splitlines()[-1].endswith("  train.py")
    shown = xmcloud("diff", "-p", first, second, status=ExitCode.DIFFERENT).stdout
    assert shown.splitlines()[-2:] == ["-+one", "++two"]
    assert "same" not in shown.partition("---")[2]


def test_diff_with_patch_looks_into_archives(client: Client) -> None:
    def source(text: bytes) -> PythonSource:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as tar:
            for name, data in {"a.py": text, "b.py": b"same"}.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return PythonSource(archive=put(client, stream.getvalue()), entrypoint=("x",))

    first, second = (launched(client, spec(executable=source(t))) for t in (b"one\n", b"two\n"))
    assert "a.py" not in xmcloud("diff", first, second, status=1).stdout
    shown = xmcloud("diff", "-p", first, second, status=1).stdout
    assert shown.splitlines()[-2:] == ["-one", "+two"]
    assert "b.py" not in shown


def reproduced(
    client: Client, url: str, before: End, after: End, *options: str, status: int = 0
) -> Result:
    experiment = launched(client, spec())
    run(client, url, experiment, lambda job: before)
    with Worker(url, lambda job: after):
        return xmcloud("repro", experiment, *options, status=status)


def test_what_runs_as_before_is_reproduced(client: Client, url: str) -> None:
    freeze = put(client, b"numpy==1\n")
    before = End(execution=ran(freeze), results={"loss": 0.5})
    after = End(execution=ran(freeze, host="bee"), results={"loss": 0.25})
    done = reproduced(client, url, before, after)
    assert "is reproduced." in done.stderr
    assert "Results differ, which does not count without --results." in done.stderr
    assert ["loss", "0.5", "0.25", "-0.25"] in [row.split() for row in done.stdout.splitlines()]
    strict = reproduced(client, url, before, after, "--results", status=ExitCode.DIFFERENT)
    assert "results (loss)" in strict.stderr


def test_what_runs_otherwise_is_named(client: Client, url: str) -> None:
    before, other = (ran(put(client, text)) for text in (b"numpy==1\n", b"numpy==2\n"))
    after = other.evolve(argv=("train", "more"), python="3.12.0", code=f"git:{OLD}")
    ends = End(execution=before), End(execution=after)
    done = reproduced(client, url, *ends, status=ExitCode.DIFFERENT)
    assert ": code, command (argv), machine (Python), packages (numpy)\n" in done.stderr
    assert "is not reproduced." in done.stderr


def test_what_ends_otherwise_is_not_reproduced(client: Client, url: str) -> None:
    good, bad = (End(outcome, execution=ran(None)) for outcome in ("completed", "failed"))
    done = reproduced(client, url, good, bad, status=ExitCode.DIFFERENT)
    assert "outcome (state)" in done.stderr
    assert "is reproduced." in reproduced(client, url, bad, bad).stderr


def test_what_no_worker_saw_is_compared_with_its_definition(client: Client, url: str) -> None:
    source = PythonSource(
        archive=ARCHIVE, entrypoint=("python", "t.py"), requirements="numpy==1\nscipy>2\n"
    )
    experiment = launched(client, spec(executable=source))
    freeze = put(client, b"numpy==1\nscipy==3\n")
    execution = ran(freeze, argv=("python", "t.py", "--lr=0.1"), code=f"sha256:{ARCHIVE}")
    with Worker(url, lambda job: End(execution=execution)):
        done = xmcloud("repro", experiment)
    assert "is reproduced." in done.stderr
    for what in ("Python and machine", "versions that the requirements leave open: scipy", "draft"):
        assert what in done.stderr
    wrong = execution.evolve(argv=("python", "t.py"), packages=put(client, b"numpy==2\n"))
    with Worker(url, lambda job: End(execution=wrong)):
        told = answer("repro", experiment, status=ExitCode.DIFFERENT)
    differing = {d["name"] for d in told["pairs"][0]["differences"] if d["change"] != "equal"}
    assert differing == {"argv", "numpy"}


def test_without_a_record_nothing_is_called_reproduced(client: Client, url: str) -> None:
    done = reproduced(client, url, End(), End(), status=ExitCode.DIFFERENT)
    assert "has no record of it" in done.stderr


def test_repro_wants_one_queue(client: Client) -> None:
    experiment = launched(client, spec(), spec())
    for unit, queue in ((1, "high"), (2, "low")):
        xmcloud("enqueue", f"{experiment}/{unit}", "--queue", queue)
    refused = xmcloud("repro", experiment, status=ExitCode.REFUSED)
    assert "--queue QUEUE" in refused.stderr
    xmcloud("stop", experiment)
