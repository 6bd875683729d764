"""Tokens are kept, replaced before they expire and once they are refused, and never told."""

import hashlib
import logging
import os
import time
import traceback
from pathlib import Path

import pytest

from tests.functions.commands.running import answer, xmcloud
from tests.functions.signing_in.conftest import ADMIN, Api
from tests.functions.signing_in.test_signing_in import PERSON, SOMEBODY, written
from tests.support.google_identity import Google
from xmcloud.core.errors import XmcloudError
from xmcloud.core.identity import Role
from xmcloud.core.member_protocol import NewToken
from xmcloud.xm_cloud.credentials.credential_files import id_token
from xmcloud.xm_cloud.credentials.credentials import Behind, Fixed
from xmcloud.xm_cloud.credentials.google_identity import GoogleIdentity
from xmcloud.xm_cloud.credentials.login import kept_token, read_login
from xmcloud.xm_cloud.identity_client import IdentityClient
from xmcloud.xm_cloud.places import address, current_project, named_elsewhere


@pytest.fixture
def signed_in(api: Api, google: Google, machine: Path) -> Path:
    """The home of somebody with a key."""
    key = written(machine / "key.json", google.key(SOMEBODY))
    xmcloud("login", api.url, "--credentials", str(key))
    google.asked.clear()
    return machine / "home"


def identity(api: Api, google: Google, machine: Path) -> GoogleIdentity:
    key = written(machine / "key.json", google.key(SOMEBODY))
    return GoogleIdentity(lambda: id_token(key, api.url))


def asked(google: Google) -> int:
    return google.asked.count("key")


def test_one_token_serves_all_commands(signed_in: Path, google: Google) -> None:
    for _ in range(3):
        xmcloud("whoami")
    assert asked(google) == 0


def test_a_token_is_replaced_before_it_expires(api: Api, google: Google, machine: Path) -> None:
    credentials = identity(api, google, machine)
    google.lifetime = 60
    with IdentityClient(api.url, credentials) as client:
        assert client.me().name == SOMEBODY
        assert asked(google) == 1
        google.lifetime = 3600
        assert client.me().name == SOMEBODY
        assert client.me().name == SOMEBODY
    assert asked(google) == 2


def test_a_token_that_is_still_good_is_used_while_google_is_away(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
    now = [time.time()]
    key = written(machine / "key.json", google.key(SOMEBODY))
    credentials = GoogleIdentity(lambda: id_token(key, api.url), now=lambda: now[0])
    first = credentials.headers()
    google.down = True
    now[0] += 3400
    assert credentials.headers() == first
    assert credentials.at_hand() == first, "so soon it is not tried again"
    now[0] += 31
    assert credentials.at_hand() is None
    now[0] += 200
    with pytest.raises(XmcloudError, match="Google does not answer"):
        credentials.headers()
    google.down = False
    assert credentials.headers() != first


def test_what_is_refused_is_sent_once_more_with_a_new_token(
    signed_in: Path, api: Api, google: Google
) -> None:
    forged = google.id_token(SOMEBODY, api.url, key=google.stranger)
    kept = signed_in / "id-token.json"
    known = kept.read_text()
    (good,) = [token for token in google.given if token in known]
    kept.write_text(known.replace(good, forged))
    os.utime(signed_in.parent / "key.json")
    assert answer("whoami")["name"] == SOMEBODY
    assert asked(google) == 1
    assert forged not in kept.read_text()


def test_a_body_in_pieces_is_sent_once_more_too(api: Api, google: Google, machine: Path) -> None:
    member = api.member(Role.MEMBER)
    key = written(machine / "key.json", google.key(member))
    tokens = [google.id_token(member, api.url, key=google.stranger)]
    credentials = GoogleIdentity(lambda: tokens.pop() if tokens else id_token(key, api.url))
    credentials.token()
    credentials._fetched_at = float("-inf")
    data, told = os.urandom(1_000_000), list[int]()
    digest = hashlib.sha256(data).hexdigest()
    with IdentityClient(api.url, credentials) as client:
        client.put_blob(digest, data, told.append)
        assert client.get_blob(digest) == data
    assert told[-1] == len(data)


def test_a_new_token_that_is_refused_is_not_replaced(
    api: Api, google: Google, machine: Path
) -> None:
    key = written(machine / "key.json", google.key(SOMEBODY))
    credentials = GoogleIdentity(lambda: id_token(key, "https://elsewhere"))
    with IdentityClient(api.url, credentials) as client:
        for _ in range(2):
            with pytest.raises(XmcloudError, match="is for 'https://elsewhere'"):
                client.me()
    assert asked(google) == 1


def test_the_gate_of_cloud_run_gets_the_identity_beside_another_token(
    signed_in: Path, api: Api, google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = address().credentials.headers()
    assert alone["X-Serverless-Authorization"] == alone["Authorization"]
    with api.as_(ADMIN) as admin:
        made = admin.create_token("*", NewToken(name="machine", role=Role.VIEWER)).token
    monkeypatch.setenv("XMCLOUD_TOKEN", made)
    credentials = address().credentials
    assert isinstance(credentials, Behind)
    assert (
        credentials.headers()
        == credentials.at_hand()
        == {
            **alone,
            "Authorization": f"Bearer {made}",
        }
    )
    known = answer("whoami")
    assert (known["name"], known["proof"]) == ("token:machine", "XMCLOUD_TOKEN")


@pytest.mark.parametrize("name", ["login.json", "id-token.json"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_files_that_others_can_read_are_refused(signed_in: Path, name: str, mode: int) -> None:
    (signed_in / name).chmod(mode)
    said = xmcloud("whoami", status=5).stderr
    assert f"chmod 600 {signed_in / name}" in said


def test_a_login_that_tells_nothing(signed_in: Path) -> None:
    (signed_in / "login.json").write_text("{}")
    assert "does not tell who is signed in" in xmcloud("whoami", status=5).stderr


def test_a_kept_token_that_is_none_is_replaced(signed_in: Path, google: Google) -> None:
    for content in ("", "{", "[]", '{"of": 1, "token": 2}'):
        (signed_in / "id-token.json").write_text(content)
        xmcloud("whoami")
    assert asked(google) > 0


def test_a_key_that_was_written_anew_is_another_identity(
    signed_in: Path, api: Api, google: Google
) -> None:
    other = "other@p.iam.gserviceaccount.com"
    path = written(signed_in.parent / "key.json", google.key(other))
    os.utime(path, ns=(1, 1))
    login = read_login(signed_in)
    assert login is not None
    assert kept_token(signed_in, login).load() is None


def test_where_commands_go(
    signed_in: Path, api: Api, google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = signed_in / "control.json"
    here.write_text('{"url": "http://127.0.0.1:1"}')
    (signed_in / "token").write_text("own")
    (signed_in / "token").chmod(0o600)
    assert (address().url, named_elsewhere()) == (api.url, api.url)
    monkeypatch.setenv("XMCLOUD_URL", "http://127.0.0.1:1")
    assert address().credentials == Fixed("own")
    monkeypatch.setenv("XMCLOUD_URL", "https://elsewhere")
    with pytest.raises(XmcloudError, match="XMCLOUD_TOKEN is not set"):
        address()
    monkeypatch.setenv("XMCLOUD_TOKEN", "given")
    assert address().credentials == Fixed("given")
    monkeypatch.delenv("XMCLOUD_TOKEN")
    monkeypatch.setenv("XMCLOUD_URL", f"{api.url}/")
    assert answer("whoami")["name"] == SOMEBODY


def test_an_identity_without_signing_in_goes_where_its_token_is_for_alone(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMCLOUD_URL", api.url)
    key = written(machine / "key.json", google.key(SOMEBODY))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    assert answer("whoami")["name"] == SOMEBODY
    written(key, google.person(PERSON))
    assert f"xmcloud login {api.url}" in xmcloud("whoami", status=5).stderr
    written(key, google.key(SOMEBODY))
    monkeypatch.setenv("XMCLOUD_URL", "http://xmcloud.example")
    assert "xmcloud login" in xmcloud("whoami", status=5).stderr


def test_the_project_of_commands(
    signed_in: Path, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api.as_(ADMIN) as admin:
        admin.set_role("*", SOMEBODY, Role.VIEWER)
    assert current_project() == ""
    assert "no project 'nothing'" in xmcloud("project", "use", "nothing", status=3).stderr
    xmcloud("project", "use", "default")
    assert current_project() == "default"
    monkeypatch.setenv("XMCLOUD_PROJECT", "speech")
    assert current_project() == "speech"
    assert "But XMCLOUD_PROJECT is set" in xmcloud("project", "use", "default").stderr
    monkeypatch.delenv("XMCLOUD_PROJECT")
    monkeypatch.setenv("XMCLOUD_URL", "https://elsewhere")
    assert current_project() == ""


def test_nothing_of_a_token_is_told(
    api: Api,
    google: Google,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In logs of all libraries, tracebacks and what objects say of themselves."""
    monkeypatch.setenv("GOOGLE_SDK_PYTHON_LOGGING_SCOPE", "google")
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for name in ("httpx", "httpcore", "google", "google.auth", "urllib3"):
            caplog.set_level(logging.DEBUG, name)
        for content in (
            google.person(PERSON),
            google.person(PERSON, openid=False),
            google.federated(SOMEBODY, machine / "subject"),
            google.federated("nobody@p", machine / "subject"),
        ):
            path = written(machine / "file.json", content)
            credentials = GoogleIdentity(lambda path=path: id_token(path, api.url))  # type: ignore[misc]
            try:
                with IdentityClient(api.url, credentials) as client:
                    client.me()
                    client.create_token("*", NewToken(name="x", role=Role.ADMIN))
            except XmcloudError as error:
                said += traceback.format_exception(error)
                cause: BaseException | None = error
                while cause is not None:
                    said += [repr(cause), repr(cause.args)]
                    cause = cause.__cause__ or cause.__context__
            said += [repr(credentials), repr(vars(credentials))]
    told = "\n".join([*said, *(repr(vars(record)) for record in caplog.records), caplog.text])
    assert "Google refuses" in told or "may not act as" in told
    assert len(google.secrets) > 3
    for secret in (*google.given, *google.secrets):
        assert secret not in told
        assert secret[-60:] not in told
