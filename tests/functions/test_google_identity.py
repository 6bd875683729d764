"""ID tokens of Google at the API: which are believed, and forgeries that are not."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functions.api import Api, problem
from tests.support.google_identity import (
    ADC_CLIENT,
    GCLOUD_CLIENT,
    Google,
    SigningKey,
    google_identity,
)
from xmcloud.adapters.gcp.identity import Certificates, GoogleIdTokens
from xmcloud.core.errors import Unavailable
from xmcloud.functions.http.auth import ApiTokens, SignedIn

pytestmark = pytest.mark.anyio

API = "https://xmcloud.example"
ADA, ANT = "ada@example.com", "ant@p.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def google() -> Iterator[Google]:
    with google_identity() as google:
        yield google


@pytest.fixture
def api(recorded_api: Api, google: Google) -> Api:
    tokens = GoogleIdTokens(Certificates(google.certs), {API})
    recorded_api.app.state.authenticators = [ApiTokens(), SignedIn(tokens, {ADA})]
    return recorded_api


async def me(api: Api, token: str) -> tuple[int, dict[str, Any]]:
    answer = await api.http.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("account", "audience"), [(ADA, API), (ADA, GCLOUD_CLIENT), (ADA, ADC_CLIENT), (ANT, API)]
)
async def test_who_has_a_good_token_is_known(
    api: Api, google: Google, account: str, audience: str
) -> None:
    status, told = await me(api, google.id_token(account, audience))
    assert (status, told["name"]) == (200, account)


async def test_names_have_no_case(api: Api, google: Google) -> None:
    _, told = await me(api, google.id_token("Ada@Example.COM", API))
    assert told == {"name": ADA, "roles": {"*": "admin"}}


async def test_an_old_name_of_the_issuer(api: Api, google: Google) -> None:
    token = google.id_token(ADA, API, iss="accounts.google.com")
    assert (await me(api, token))[0] == 200


async def test_who_is_known_and_no_member_may_nothing(api: Api, google: Google) -> None:
    token = google.id_token("eve@example.com", API)
    assert await me(api, token) == (200, {"name": "eve@example.com", "roles": {}})
    answer = await api.http.get("/v1/queues", headers={"Authorization": f"Bearer {token}"})
    assert problem(answer).detail == "eve@example.com may not read anywhere."


async def test_the_control_plane_s_own_token_opens_nothing(api: Api) -> None:
    """On Google Cloud it only signs the tokens of attempts."""
    assert (await api.http.get("/v1/me")).status_code == 401


FORGED: dict[str, dict[str, Any]] = {
    "not signed at all": {"algorithm": "none"},
    "signed with the certificate as a password": {"algorithm": "HS256"},
    "of a key that is not Google's": {"header": {"kid": "unknown"}},
    "over since a minute": {"lifetime": -60},
    "not yet good": {"iat": 4102444800, "exp": 4102448400},
    "of another issuer": {"iss": "https://accounts.example.com"},
    "of no issuer": {"iss": None},
    "for somebody else": {"aud": "https://other.example"},
    "for several": {"aud": [API]},
    "for nobody": {"aud": None},
    "of an address that was not verified": {"email_verified": False},
    "of an address that only says so": {"email_verified": "true"},
    "of no address": {"email": None},
    "of an address that is a path": {"email": "a/b@example.com"},
    "without an end": {"exp": None},
}


@pytest.mark.parametrize("why", FORGED)
async def test_a_forged_token(api: Api, google: Google, why: str) -> None:
    status, told = await me(api, google.id_token(ADA, API, **FORGED[why]))
    assert status == 401, told
    assert told["remedy"]


async def test_a_token_signed_by_a_stranger_under_google_s_name(api: Api, google: Google) -> None:
    token = google.id_token(ADA, API, key=google.stranger)
    assert (await me(api, token))[0] == 401


async def test_a_token_whose_claims_were_changed(api: Api, google: Google) -> None:
    head, _, signature = google.id_token("eve@example.com", API).split(".")
    other = google.id_token(ADA, API).split(".")[1]
    assert (await me(api, f"{head}.{other}.{signature}"))[0] == 401


@pytest.mark.parametrize("audience", [GCLOUD_CLIENT, ADC_CLIENT])
async def test_a_service_account_names_this_api(api: Api, google: Google, audience: str) -> None:
    """It can, and what it gave to another service must not open this one."""
    assert (await me(api, google.id_token(ANT, audience)))[0] == 401


@pytest.mark.parametrize("token", ["a.b.c", "..", "a" * 5000, "xmc_short", "e30.e30.e30"])
async def test_what_is_no_token(api: Api, token: str) -> None:
    assert (await me(api, token))[0] == 401


async def test_claims_that_are_no_object(api: Api, google: Google) -> None:
    head, _, signature = google.id_token(ADA, API).split(".")
    claims: object
    for claims in ([], "text", None, 7):
        body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        assert (await me(api, f"{head}.{body}.{signature}"))[0] == 401


class TestCertificates:
    """Google's, kept for as long as it says."""

    @pytest.fixture
    def clock(self) -> list[float]:
        return [1000.0]

    @pytest.fixture
    def certificates(self, google: Google, clock: list[float]) -> Certificates:
        google.asked.clear()
        return Certificates(google.certs, monotonic=lambda: clock[0])

    async def test_they_are_fetched_once(self, google: Google, certificates: Certificates) -> None:
        tokens = GoogleIdTokens(certificates, {API})
        for _ in range(5):
            assert await tokens.verify(google.id_token(ADA, API)) == ADA
        assert google.asked.count("certs") == 1

    async def test_a_key_that_is_not_there_is_looked_for_once_a_minute(
        self, google: Google, certificates: Certificates, clock: list[float]
    ) -> None:
        for after, fetched in ((0, 1), (30, 1), (59.9, 1), (60, 2)):
            clock[0] = 1000 + after
            await certificates.of("unknown")
            assert google.asked.count("certs") == fetched

    async def test_without_an_answer_nobody_is_refused_for_good(
        self, google: Google, certificates: Certificates
    ) -> None:
        google.down = True
        try:
            with pytest.raises(Unavailable, match="Google's certificates cannot be read"):
                await certificates.of("google-1")
        finally:
            google.down = False
        assert "google-1" in await certificates.of("google-1")


def test_the_stranger_has_a_key_of_the_same_name(google: Google) -> None:
    """Otherwise the test of it would show less than it says."""
    assert isinstance(google.stranger, SigningKey)
    assert google.stranger.id == "google-1"
