"""`xmcloud login`, `whoami` and `logout`: each way to prove who one is."""

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functions.commands.running import answer, xmcloud
from tests.functions.signing_in.conftest import ADMIN, Api
from tests.support.google_identity import Google
from xmcloud.core.identity import Role
from xmcloud.core.member_protocol import NewToken

PERSON = "ada@example.com"


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def adc(google: Google, account: str, folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    written(folder / "gcloud" / "application_default_credentials.json", google.person(account))
    return []


def named_key(google: Google, account: str, folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    key = written(folder / "key.json", google.key(account))
    patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    return []


def key(google: Google, account: str, folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    return ["--credentials", str(written(folder / "key.json", google.key(account)))]


def federated(google: Google, account: str, folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    config = google.federated(account, folder / "subject")
    return ["--credentials", str(written(folder / "federated.json", config))]


def impersonated(google: Google, account: str, folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    config = google.impersonated(account, google.person(PERSON))
    return ["--credentials", str(written(folder / "acting.json", config))]


def by_key(google: Google, account: str, folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    source = google.key("source@p.iam.gserviceaccount.com")
    config = google.impersonated(account, source)
    return ["--credentials", str(written(folder / "acting.json", config))]


def gcloud(google: Google, account: str, folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    google.install_gcloud(folder / "bin", account)
    return []


Way = Callable[[Google, str, Path, pytest.MonkeyPatch], list[str]]
SOMEBODY = "bot@p.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("way", "account", "asked"),
    [
        (adc, PERSON, ["refresh"]),
        (named_key, SOMEBODY, ["key"]),
        (key, SOMEBODY, ["key"]),
        (federated, SOMEBODY, ["sts", "impersonate"]),
        (impersonated, SOMEBODY, ["refresh", "impersonate"]),
        (by_key, SOMEBODY, ["key-access", "impersonate"]),
        (gcloud, PERSON, ["gcloud"]),
        (gcloud, SOMEBODY, ["gcloud", "gcloud"]),
    ],
)
def test_signing_in(
    api: Api,
    google: Google,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    account: str,
    asked: list[str],
) -> None:
    options = way(google, account, machine, monkeypatch)
    said = xmcloud("login", api.url + "/", *options)
    assert said.stdout.startswith(f"Signed in to {api.url} as {account} (")
    assert f"xmcloud member set {account} member" in said.stderr
    known = answer("whoami")
    assert (known["name"], known["roles"], known["project"]) == (account, {}, "default")
    assert (known["url"], known["source"]) == (api.url, "xmcloud login")
    assert known["expires_at"]
    assert [each for each in google.asked if each != "certs"] == asked
    for name in ("login.json", "id-token.json"):
        assert stat.S_IMODE((machine / "home" / name).stat().st_mode) == 0o600
    kept = (machine / "home" / "login.json").read_text()
    assert not any(secret in kept for secret in (*google.given, *google.secrets))


def test_with_the_identity_of_the_machine(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = google.url.removeprefix("http://")
    monkeypatch.setenv("GCE_METADATA_HOST", host)
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
    assert "this machine's service account" in xmcloud("login", api.url).stdout
    assert answer("whoami")["name"] == "machine@p.iam.gserviceaccount.com"
    assert google.asked == ["metadata"]


def test_credentials_come_before_the_machine_and_that_before_gcloud(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = google.url.removeprefix("http://")
    gcloud(google, PERSON, machine, monkeypatch)
    assert answer("login", api.url)["proof"] == "gcloud"
    monkeypatch.setenv("GCE_METADATA_HOST", host)
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
    assert answer("login", api.url)["proof"] == "this machine's service account"
    adc(google, PERSON, machine, monkeypatch)
    assert answer("login", api.url)["proof"].startswith("Google's credentials ")
    assert answer("login", api.url, "--method", "gcloud")["proof"] == "gcloud"


@pytest.mark.parametrize("source", ["token", "-"])
def test_an_api_token(api: Api, google: Google, machine: Path, source: str) -> None:
    with api.as_(ADMIN) as admin:
        made = admin.create_token("*", NewToken(name="laptop", role=Role.VIEWER))
    (machine / "token").write_text(f"{made.token}\n")
    said = xmcloud("login", api.url, "--token", source, typed=f"{made.token}\n")
    assert said.stdout == (
        f"Signed in to {api.url} as token:laptop (an API token).\nRoles: viewer everywhere\n"
    )
    assert made.token not in said.output
    assert stat.S_IMODE((machine / "home" / "login.json").stat().st_mode) == 0o600
    assert answer("whoami")["expires_at"] is None


def test_from_terraform(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_key(google, SOMEBODY, machine, monkeypatch)
    program = machine / "bin" / "terraform"
    program.parent.mkdir()
    at = api.url.replace("127.0.0.1", "localhost")
    outputs = json.dumps({"api_url": {"value": at}, "audience": {"value": api.url}})
    program.write_text("#!/bin/sh\n[ \"$*\" = '-chdir=infra/terraform output -json' ] || exit 3\n")
    program.chmod(0o755)
    said = xmcloud("login", "--from-terraform", status=2).stderr
    assert "terraform has no output api_url in infra/terraform" in said
    program.write_text(f"{program.read_text()}echo '{outputs}'\n")
    assert answer("login", "--from-terraform")["url"] == at
    assert answer("whoami")["name"] == SOMEBODY
    assert "is for 'http://localhost" in xmcloud("login", at, status=5).stderr
    assert answer("login", at, "--audience", api.url)["name"] == SOMEBODY
    assert "it ended with 3" in xmcloud("login", "--from-terraform", "other", status=2).stderr


def test_signing_out(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adc(google, PERSON, machine, monkeypatch)
    xmcloud("login", api.url)
    assert xmcloud("logout").stdout == "Signed out.\n"
    assert list((machine / "home").iterdir()) == []
    assert xmcloud("logout").stdout == "Nobody was signed in.\n"
    assert "xmcloud login URL" in xmcloud("whoami", status=4).stderr


def test_nothing_proves_who_one_is(api: Api) -> None:
    said = xmcloud("login", api.url, status=5).stderr
    assert said.startswith("Error: Nothing on this machine tells who you are. Run `gcloud auth")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://xmcloud.example", "It must be one with https://"),
        ("xmcloud.example", "It must begin with http:// or https://"),
    ],
)
def test_addresses_that_nobody_signs_in_to(
    google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    adc(google, PERSON, machine, monkeypatch)
    assert said in xmcloud("login", url, status=4 if ":" not in url else 2).stderr
    assert google.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Give the URL of a control plane, or --from-terraform."),
        (["https://x", "--from-terraform", "y"], "Give the URL of a control plane, or --from"),
        (["https://x", "--method", "adc", "--token", "-"], "Give one of --method"),
    ],
)
def test_command_lines_that_say_too_much_or_nothing(words: list[str], said: str) -> None:
    assert said in xmcloud("login", *words, status=2).stderr


def damaged(content: Any) -> Callable[[Google, Path], Any]:
    return lambda google, folder: content


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (damaged({"type": "gdch"}), "no ID token can be had: it is 'gdch'"),
        (damaged([]), "holds no credentials of Google's"),
        (damaged({"type": "authorized_user"}), "is not usable (KeyError)"),
        (lambda google, folder: google.person(PERSON, openid=False), "without the scope openid"),
        (
            lambda google, folder: google.federated("nobody@p", folder / "subject"),
            "may not act as nobody@p (HTTP 403)",
        ),
        (
            lambda google, folder: {
                **google.federated("x@p", folder / "subject"),
                "service_account_impersonation_url": "",
            },
            "names no service account to act as",
        ),
    ],
)
def test_credentials_that_give_no_id_token(
    api: Api, google: Google, machine: Path, made: Callable[[Google, Path], Any], said: str
) -> None:
    file = written(machine / "file.json", made(google, machine))
    told = xmcloud("login", api.url, "--credentials", str(file), status=5)
    assert said in told.stderr
    assert not (machine / "home").exists()


def test_a_token_of_another_cloud_that_is_not_the_workers(
    api: Api, google: Google, machine: Path
) -> None:
    config = google.federated(SOMEBODY, machine / "subject")
    (machine / "subject").write_text("stolen")
    file = written(machine / "file.json", config)
    said = xmcloud("login", api.url, "--credentials", str(file), status=5).stderr
    assert "Google refuses" in said
    assert "Not yours" in said
    assert "stolen" not in said


def test_google_refuses_or_is_away(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adc(google, PERSON, machine, monkeypatch)
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
    google.refuses = True
    said = xmcloud("login", api.url, status=5).stderr
    assert "invalid_grant: Revoked" in said
    assert "gcloud auth application-default login" in said
    google.refuses, google.down = False, True
    assert "Google does not answer for" in xmcloud("login", api.url, status=4).stderr


def test_gcloud_says_why_it_gives_none(
    api: Api, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'ERROR: no active account' >&2\nexit 1\n")
    program.chmod(0o755)
    said = xmcloud("login", api.url, status=5).stderr
    assert said == (
        "Error: gcloud gives no ID token: ERROR: no active account Sign in: gcloud auth login\n"
    )


def test_without_google_auth_the_remedy_is_said(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adc(google, PERSON, machine, monkeypatch)
    monkeypatch.setitem(sys.modules, "google.auth", None)
    assert "pip install 'xmcloud[gcp]'" in xmcloud("login", api.url, status=5).stderr
