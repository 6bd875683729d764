"""The entrypoint of images, as the process that it is in them."""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.attempt_api import AttemptApi, attempt_api
from xmcloud.core.models import Outcome, ReasonCode
from xmcloud.core.protocol import Problem
from xmcloud.core.worker_protocol import Finished, Output, Report, Started
from xmcloud.xm_cloud.packaging import container_entrypoint
from xmcloud.xm_cloud.packaging.container_entrypoint import UnknownName, bound, reports_here

FILE = Path(container_entrypoint.__file__)
WITH = "import sys; sys.path[:0] = [{folder!r}]; import container_entrypoint as e; {settings}; "
EXPERIMENT = "abcdefghijklmnop"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[AttemptApi]:
    with attempt_api(str(tmp_path)) as api:
        yield api


def started(
    environment: Mapping[str, str], *command: str, **settings: float
) -> subprocess.Popen[bytes]:
    """The entrypoint with that command; `settings` replace constants of it."""
    changes = "; ".join(f"e.{name} = {value!r}" for name, value in settings.items()) or "pass"
    prelude = WITH.format(folder=str(FILE.parent), settings=changes)
    argv = [sys.executable, "-c", f"{prelude}sys.exit(e.main(sys.argv[1:]))", *command]
    return subprocess.Popen(
        argv if settings else [sys.executable, "-IS", str(FILE), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **environment},
    )


def ran(
    environment: Mapping[str, str], *command: str, **settings: float
) -> tuple[int, bytes, bytes]:
    """The exit code, stdout and stderr."""
    with started(environment, *command, **settings) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_it_is_for_python_3_6_too() -> None:
    ast.parse(FILE.read_text(), feature_version=(3, 6))


def test_alone_it_is_the_command() -> None:
    script = 'printf "<%s>" "$@"; trap; echo $$; exit 7'
    hard = ["a b", "%objectname(x)%", "", "ä\n"]
    with started({}, "bash", "-c", script, "name", *hard) as process:
        out, err = process.communicate(timeout=60)
    printed = "".join(f"<{word}>" for word in hard) + f"{process.pid}\n"
    assert (process.returncode, out.decode(), err) == (7, printed, b"")


def test_alone_a_broken_pipe_ends_the_command_as_ever() -> None:
    assert ran({}, "bash", "-c", "yes | head -1; exit ${PIPESTATUS[0]}")[:2] == (141, b"y\n")


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_what_cannot_start_is_told(program: str, code: int, api: AttemptApi) -> None:
    assert ran({}, program)[0] == code
    exit_code, _, err = ran(api.environment, program)
    assert exit_code == code
    assert f"Cannot start '{program}'".encode() in err
    assert api.end.outcome is Outcome.FAILED
    assert api.end.reason.code is ReasonCode.SETUP_FAILED


def test_addresses_of_peers() -> None:
    environment = {
        "XMCLOUD_PEERS": json.dumps({"ps": "10.0.0.1:2222", "ps-1": "10.0.0.2:3333"}),
        "XMCLOUD_EXPERIMENT_ID": EXPERIMENT,
        "XMCLOUD_UNIT": "3",
        "PEER": f"grpc://{EXPERIMENT}_3_ps-1:80",
        "XMCLOUD_OWN": "%objectname(ps)%",
    }
    command = ["run", "--ps=%objectname(ps)%,%objectname(ps-1)%", f"{EXPERIMENT}_3_ps:1 x"]
    words, variables = bound(command, environment)
    assert words == ["run", "--ps=10.0.0.1:2222,10.0.0.2:3333", "10.0.0.1:1 x"]
    assert variables["PEER"] == "grpc://10.0.0.2:80"
    assert variables["XMCLOUD_OWN"] == "%objectname(ps)%"
    assert bound([f"%objectname({EXPERIMENT}_3_ps)%"], environment)[0] == ["10.0.0.1:2222"]
    assert bound([f"x{EXPERIMENT}_3_ps:1 {EXPERIMENT}_3_ps"], environment)[0] == [
        f"x{EXPERIMENT}_3_ps:1 {EXPERIMENT}_3_ps"
    ]
    assert bound(["%objectname(workerpool1)%"], environment)[0] == ["10.0.0.2:3333"]
    with pytest.raises(UnknownName, match=r"%objectname\(other\)% names none of .*ps, ps-1"):
        bound(["%objectname(other)%"], environment)


def test_addresses_of_worker_pools() -> None:
    cluster = {"workerpool0": ["w0:2222"], "workerpool1": ["w1-0:2222", "w1-1:2222"]}
    environment = {
        "CLUSTER_SPEC": json.dumps({"cluster": cluster, "task": {"type": "workerpool0"}}),
        "XMCLOUD_POOLS": json.dumps(["chief", "worker"]),
    }
    words, variables = bound(["%objectname(worker)%", "%objectname(workerpool0)%"], environment)
    assert words == ["w1-0:2222", "w0:2222"]
    assert json.loads(variables["XMCLOUD_PEERS"]) == {"chief": "w0:2222", "worker": "w1-0:2222"}


def test_a_job_that_is_alone_on_the_platform_knows_itself() -> None:
    cluster = {"cluster": {"workerpool0": ["w0:2222"]}, "task": {"type": "workerpool0"}}
    environment = {"CLUSTER_SPEC": json.dumps(cluster), "XMCLOUD_JOB_NAME": "train"}
    assert bound(["%objectname(train)%"], environment)[0] == ["w0:2222"]


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '"x"'])
def test_what_is_no_cluster_is_nobodys_address(text: str) -> None:
    assert bound(["%objectname(a)%"], {"CLUSTER_SPEC": text})[0] == ["%objectname(a)%"]


def test_the_first_replica_reports(api: AttemptApi) -> None:
    environment = api.environment
    assert reports_here(environment)
    assert not reports_here({**environment, "XMCLOUD_ATTEMPT_TOKEN": ""})
    for index, here in ((0, True), (1, False)):
        task = json.dumps({"cluster": {}, "task": {"type": "workerpool1", "index": index}})
        assert reports_here({**environment, "CLUSTER_SPEC": task}) is here
        assert reports_here({**environment, "JOB_COMPLETION_INDEX": str(index)}) is here
        assert reports_here({**environment, "XMCLOUD_REPORTS": str(1 - index)}) is here
    assert ran({**environment, "XMCLOUD_REPORTS": "0"}, "echo", "x") == (0, b"x\n", b"")
    assert api.requests == 0


def test_it_tells_of_start_output_and_end(api: AttemptApi) -> None:
    script = """
echo to stdout
echo to stderr >&2
env | grep -c -e XMCLOUD_URL -e TOKEN
printf '{"accuracy": 0.5}' >"$XMCLOUD_RESULTS"
"""
    code, out, err = ran(api.environment, "bash", "-c", script)
    assert (code, out, err) == (0, b"to stdout\n0\n", b"to stderr\n")
    assert isinstance(api.taken[0], Started)
    assert sorted(api.log.splitlines()) == [b"0", b"to stderr", b"to stdout"]
    assert api.end.outcome is Outcome.COMPLETED
    assert (api.end.results, api.end.reason.exit_code) == ({"accuracy": 0.5}, 0)


def test_a_gate_that_knows_no_token_of_ours_is_shown_the_machines_identity(
    api: AttemptApi,
) -> None:
    api.statuses, api.refusal = [403], b"<html>Your client does not have permission.</html>"
    here = {**api.environment, "GCE_METADATA_HOST": api.url.removeprefix("http://")}
    assert ran(here, "echo", "x")[0] == 0
    assert api.end.outcome is Outcome.COMPLETED
    assert api.identities[0] is None
    assert set(api.identities[1:]) == {f"Bearer identity-for-{api.url}"}


def test_output_comes_in_pieces(api: AttemptApi) -> None:
    code, out, _ = ran(api.environment, "bash", "-c", "seq 300000")
    assert (code, len(out)) == (0, 1988895)
    assert api.log == out
    pieces = [report for report in api.taken if isinstance(report, Output)]
    assert max(len(piece.data) for piece in pieces) <= 256 * 1024


@pytest.mark.parametrize(
    ("script", "code", "reason", "message"),
    [
        ("echo why; exit 3", 3, ReasonCode.EXITED, "exited with code 3\nwhy"),
        ("kill -TERM $$", 143, ReasonCode.SIGNALED, "killed by signal SIGTERM"),
        ("kill -KILL $$", 137, ReasonCode.SIGNALED, "killed by signal SIGKILL (the system does"),
    ],
)
def test_a_failure_says_why(
    api: AttemptApi, script: str, code: int, reason: ReasonCode, message: str
) -> None:
    assert ran(api.environment, "bash", "-c", script)[0] == code
    end = api.end
    assert (end.outcome, end.reason.code, end.reason.exit_code) == (Outcome.FAILED, reason, code)
    assert end.reason.message.startswith(message)


@pytest.mark.parametrize("written", ["[1]", "{", '{"a": NaN}', '"' + "x" * 20_000 + '"'])
def test_results_that_are_none_are_left_out(api: AttemptApi, written: str) -> None:
    code, _, err = ran(
        api.environment, "bash", "-c", 'printf "%s" "$0" >"$XMCLOUD_RESULTS"', written
    )
    assert (code, api.end.outcome, api.end.results) == (0, Outcome.COMPLETED, {})
    assert b"the file of results is ignored" in err
    assert b"the file of results is ignored" in api.log


def test_an_end_that_is_refused_goes_again_without_results(api: AttemptApi) -> None:
    refusal = Problem(type="x", title="x", status=422, detail="too deep")

    def objects(report: Report) -> Problem | None:
        return refusal if isinstance(report, Finished) and report.results else None

    api.problem_of = objects
    assert ran(api.environment, "bash", "-c", 'echo \'{"a": 1}\' >"$XMCLOUD_RESULTS"')[0] == 0
    assert api.end.reason.code is ReasonCode.SETUP_FAILED
    assert api.end.reason.message == "the report of its end was refused: too deep (completed)"


def test_reports_are_repeated_until_they_are_taken(api: AttemptApi) -> None:
    api.statuses = [503, 500, 429, 408, 502]
    settings = {"FIRST_PAUSE_SECONDS": 0.01, "LONGEST_PAUSE_SECONDS": 0.02}
    code, out, _ = ran(api.environment, "seq", "1000", **settings)
    assert (code, api.log) == (0, out)
    assert api.end.outcome is Outcome.COMPLETED
    assert api.statuses == []


def test_what_something_else_answers_in_between_does_not_count(api: AttemptApi) -> None:
    api.statuses, api.refusal = [404, 401], b"<html>no such page</html>"
    settings = {"FIRST_PAUSE_SECONDS": 0.01, "LONGEST_PAUSE_SECONDS": 0.02}
    assert ran(api.environment, "echo", "x", **settings) == (0, b"x\n", b"")
    assert api.end.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no url", "https://[broken"])
def test_without_control_plane_the_job_runs_all_the_same(api: AttemptApi, url: str) -> None:
    environment = {**api.environment, "XMCLOUD_URL": url}
    code, out, err = ran(environment, "bash", "-c", "echo x; exit 4", LAST_TRIES_SECONDS=0.1)
    assert (code, out) == (4, b"x\n")
    assert b"the control plane was not told of the end" in err


@pytest.mark.parametrize("status", [401, 422])
def test_a_control_plane_that_refuses_does_not_end_the_job(api: AttemptApi, status: int) -> None:
    api.statuses = [status] * 10
    code, out, err = ran(api.environment, "bash", "-c", "sleep 0.3; echo done")
    assert (code, out) == (0, b"done\n")
    assert f"takes no more reports: HTTP {status}".encode() in err
    assert api.requests == 1


@pytest.mark.parametrize("as_result", [False, True])
def test_an_attempt_that_is_over_ends(api: AttemptApi, as_result: bool) -> None:
    problem = Problem(type="x", title="x", status=409, detail="another attempt")
    if as_result:
        api.problem_of = lambda report: problem
    else:
        api.statuses = [409]
    code, _, err = ran(api.environment, "sleep", "60")
    assert code == 128 + signal.SIGTERM
    assert b"takes no more reports" in err
    assert api.requests == 1


def test_a_stop_ends_it(api: AttemptApi) -> None:
    api.stop = "not needed"
    script = "trap 'echo bye; exit 5' TERM; echo on; while :; do sleep 0.05; done"
    assert ran(api.environment, "bash", "-c", script)[0] in (5, 128 + signal.SIGTERM)
    assert (api.end.outcome, api.end.reason.message) == (Outcome.STOPPED, "not needed")


def test_a_stop_is_heard_without_output(api: AttemptApi) -> None:
    with started(api.environment, "sleep", "60", HEARTBEAT_SECONDS=0.05) as process:
        api.wait_for(lambda: api.requests >= 3)
        api.stop = "not needed"
        process.communicate(timeout=60)
    assert api.end.outcome is Outcome.STOPPED


def test_what_ignores_its_end_is_killed(api: AttemptApi) -> None:
    environment = {**api.environment, "XMCLOUD_GRACE_SECONDS": "0.2"}
    script = "trap '' TERM; echo on; while :; do sleep 0.05; done"
    with started(environment, "bash", "-c", script, HEARTBEAT_SECONDS=0.05) as process:
        api.wait_for(lambda: api.log == b"on\n")
        api.stop = "not needed"
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL
    assert api.end.outcome is Outcome.STOPPED


@pytest.mark.parametrize(
    ("on_term", "outcome", "reason", "code"),
    [
        ("exit 0", Outcome.COMPLETED, ReasonCode.EXITED, 0),
        ("exit 1", Outcome.RELEASED, ReasonCode.PREEMPTED, 1),
        (":", Outcome.RELEASED, ReasonCode.PREEMPTED, 137),
    ],
)
def test_a_preemption_reaches_it_and_is_told(
    api: AttemptApi, on_term: str, outcome: Outcome, reason: ReasonCode, code: int
) -> None:
    environment = {**api.environment, "XMCLOUD_GRACE_SECONDS": "0.4"}
    script = f"trap '{on_term}' TERM; echo on; while :; do sleep 0.05; done"
    with started(environment, "bash", "-c", script) as process:
        api.wait_for(lambda: api.log == b"on\n")
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == code
    assert (api.end.outcome, api.end.reason.code) == (outcome, reason)


def test_nothing_of_the_command_outlives_it(api: AttemptApi) -> None:
    code, out, _ = ran(api.environment, "bash", "-c", "sleep 60 & echo $!; exit 0")
    assert code == 0
    assert (
        not Path(f"/proc/{int(out)}/cmdline").exists()
        or not Path(f"/proc/{int(out)}/cmdline").read_bytes()
    )


def test_much_output_without_control_plane_goes_to_a_file(api: AttemptApi) -> None:
    settings = {"MEMORY_BYTES": 1000, "FIRST_PAUSE_SECONDS": 0.01, "LONGEST_PAUSE_SECONDS": 0.01}
    api.statuses = [503] * 5
    code, out, _ = ran(api.environment, "seq", "20000", **settings)
    assert (code, api.log) == (0, out)
