"""`xmcloud project|member|token|audit`, by an admin who signed in."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.functions.commands.running import answer, xmcloud
from tests.functions.signing_in.conftest import ADMIN, Api
from tests.functions.signing_in.test_signing_in import PERSON, written
from tests.support.google_identity import Google
from xmcloud.core.errors import XmcloudError
from xmcloud.core.identity import DEFAULT_PROJECT, Role
from xmcloud.core.protocol import NewExperiment
from xmcloud.xm_cloud.credentials.credentials import Fixed
from xmcloud.xm_cloud.experiment import create_experiment
from xmcloud.xm_cloud.identity_client import IdentityClient
from xmcloud.xm_cloud.shared import close_clients


@pytest.fixture(autouse=True)
def signed_in(api: Api, google: Google, machine: Path) -> None:
    key = written(machine / "key.json", google.key(ADMIN))
    xmcloud("login", api.url, "--credentials", str(key))


def names(listed: list[dict[str, Any]]) -> set[str]:
    return {each["name"] for each in listed}


def test_projects(api: Api) -> None:
    said = xmcloud("project", "create", "vision").stdout
    assert said == "Project vision: made. Use it: xmcloud project use vision\n"
    assert "already a project 'vision'" in xmcloud("project", "create", "vision", status=3).stderr
    assert "name is 'Not a name'" in xmcloud("project", "create", "Not a name", status=2).stderr
    assert names(answer("project", "list")["projects"]) >= {"default", "vision"}
    xmcloud("project", "use", "vision")
    marked = [line for line in xmcloud("project", "list").stdout.splitlines() if line[0] == "*"]
    assert [line.split()[1:4] for line in marked] == [["vision", "no", "limit"]]
    assert "(xmcloud member set" not in xmcloud("whoami").stdout
    assert answer("whoami")["project"] == "vision"


def test_quotas(api: Api) -> None:
    xmcloud("project", "create", "limited")
    made = answer("project", "quota", "limited", "--running", "4", "--gpu-hours", "100.5")
    assert made["quota"] == {"running": 4, "queued": None, "gpu_hours": 100.5}
    xmcloud("project", "quota", "limited", "--running", "0", "--person")
    said = xmcloud("project", "quota", "limited", "--running", "none").stdout.splitlines()
    assert said == [
        "Project      limited",
        "Together     100.5 GPU hours a month",
        "Each person  0 running",
    ]
    assert "100.5 GPU hours a month" in xmcloud("project", "list").stdout
    assert (
        "must be a number" in xmcloud("project", "quota", "limited", "--queued=-1", status=2).stderr
    )
    assert "no project 'nothing'" in xmcloud("project", "quota", "nothing", status=3).stderr


def test_members(api: Api) -> None:
    xmcloud("project", "create", "speech")
    in_speech = ("--project", "speech")
    said = xmcloud("member", "set", PERSON, "member", *in_speech).stdout
    assert said == f"{PERSON}: member in speech\n"
    said = xmcloud("member", "set", "Ada@Example.com", "viewer", "--everywhere").stdout
    assert said == f"{PERSON}: viewer everywhere, member in speech\n"
    listed = xmcloud("member", "list", *in_speech).stdout.splitlines()
    assert [line.split() for line in listed if PERSON in line] == [
        [PERSON, "viewer", "everywhere"],
        [PERSON, "member", "in", "speech"],
    ]
    assert (
        xmcloud("member", "remove", PERSON, "--everywhere").stdout
        == f"{PERSON}: member in speech\n"
    )
    assert answer("member", "remove", PERSON, *in_speech) == {"name": PERSON, "roles": {}}
    refused = xmcloud("member", "set", PERSON, "worker", *in_speech, status=2).stderr
    assert "workers are of no project" in refused
    both = xmcloud("member", "list", *in_speech, "--everywhere", status=2).stderr
    assert "Give --project or --everywhere." in both


def test_tokens(api: Api) -> None:
    said = xmcloud("token", "create", "box-1", "--role", "worker", "--days", "7")
    token = said.stdout.strip()
    assert said.stdout == f"{token}\n"
    assert token.startswith("xmc_")
    assert token not in said.stderr
    assert "worker everywhere, until " in said.stderr
    with IdentityClient(api.url, Fixed(token)) as client:
        assert client.me().roles == {"*": Role.WORKER}
    (found,) = [
        each
        for each in answer("token", "list", "--everywhere")["tokens"]
        if each["name"] == "box-1"
    ]
    table = xmcloud("token", "list", "--everywhere").stdout
    assert token not in table
    assert [line.split()[1:6] for line in table.splitlines() if found["id"] in line] == [
        ["box-1", "worker", "everywhere", "good", ADMIN]
    ]
    assert (
        xmcloud("token", "revoke", found["id"]).stdout == f"Token {found['id']} (box-1): revoked\n"
    )
    assert "revoked" in xmcloud("token", "list", "--everywhere").stdout
    assert xmcloud("token", "list", "--project", DEFAULT_PROJECT).stdout == ""
    made = answer("token", "create", "ci", "--role", "viewer")
    assert (made["about"]["project"], made["about"]["role"]) == ("default", "viewer")


def test_the_audit_log(api: Api, google: Google) -> None:
    member = api.member(Role.MEMBER)
    with api.as_(member) as client:
        experiment = client.create_experiment(NewExperiment(title="audited"))
    listed = xmcloud("audit", "--who", member).stdout.splitlines()
    assert listed[0].split() == ["WHEN", "WHO", "ACTION", "WHAT"]
    assert f"{member}  create experiment  experiments/{experiment.id}: new" in listed[1]
    assert len(listed) == 2
    about = answer("audit", "--about", experiment.id[:10])["entries"]
    assert [entry["who"] for entry in about] == [member]
    changed = xmcloud("audit", "--about", f"members/{member}", "-n", "1").stdout
    assert f"set role  members/{member}: new" in changed
    xmcloud("member", "set", member, "viewer", "--everywhere")
    newest = xmcloud("audit", "--about", f"members/{member}", "-n", "1")
    assert "roles.* member -> viewer" in newest.stdout
    assert "There is more: -n 5" in newest.stderr
    assert answer("audit", "--project", "default", "-n", "1")["entries"]
    both = xmcloud("audit", "--who", "x", "--about", "y", status=2).stderr
    assert "Give one of --who, --project and --about." in both
    assert "Nothing was changed." in xmcloud("audit", "--who", "nobody@x").stderr


def test_what_one_may_not(api: Api, google: Google, machine: Path) -> None:
    key = written(machine / "key.json", google.key(api.member(Role.MEMBER)))
    xmcloud("login", api.url, "--credentials", str(key))
    for words in (
        ["project", "create", "mine"],
        ["member", "set", PERSON, "admin", "--everywhere"],
        ["token", "create", "x", "--role", "admin", "--everywhere"],
        ["audit"],
    ):
        assert "Ask an admin for the role" in xmcloud(*words, status=5).stderr
    assert json.loads(xmcloud("audit", "--json", status=5).stdout)["status"] == 403


def test_experiments_are_listed_by_project(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    xmcloud("project", "create", "listed")
    with api.as_(ADMIN) as client:
        client.create_experiment(NewExperiment(title="there", project="listed"))
        client.create_experiment(NewExperiment(title="here"))

    def titles(*words: str) -> list[str]:
        listed = answer("list", *words)["experiments"]
        return [each["experiment"]["title"] for each in listed]

    assert {"there", "here"} <= set(titles())
    assert titles("--project", "listed") == ["there"]
    monkeypatch.setenv("XMCLOUD_PROJECT", "listed")
    assert titles() == ["there"]
    assert {"there", "here"} <= set(titles("--all-projects"))
    both = xmcloud("list", "--project", "listed", "--all-projects", status=2).stderr
    assert "Give --project or --all-projects." in both


def test_where_experiments_are_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    xmcloud("project", "create", "made")
    monkeypatch.setenv("XMCLOUD_PROJECT", "made")
    empty = "no work unit"
    with pytest.warns(UserWarning, match=empty), create_experiment("by default") as experiment:
        pass
    with pytest.warns(UserWarning, match=empty), create_experiment("b", project="default") as named:
        pass
    words = ("run", "--detach", "--project", "default", "--title", "run", "--", sys.executable)
    xmcloud(*words, "-V")
    close_clients()
    listed = answer("list")["experiments"]
    assert [each["experiment"]["id"] for each in listed] == [experiment.experiment_id]
    assert listed[0]["experiment"]["creator"] == ADMIN
    listed = answer("list", "--project", "default", "--limit", "2")["experiments"]
    assert [each["experiment"]["title"] for each in listed] == ["run", "b"]
    assert listed[1]["experiment"]["id"] == named.experiment_id


def test_the_default_project_is_not_sent() -> None:
    """A control plane that knows no projects refuses a field that it does not know."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(422)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        with IdentityClient(f"http://127.0.0.1:{server.server_port}", Fixed("t")) as client:
            for project in ("default", "other"):
                with pytest.raises(XmcloudError):
                    client.create_experiment(NewExperiment(title="x", project=project))
        server.shutdown()
        thread.join()
    assert [body.get("project") for body in bodies] == [None, "other"]
