"""Google's ID tokens: whose they are, if they are good."""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import httpx
from google.auth import exceptions, jwt
from pydantic import TypeAdapter, ValidationError

from xmcloud.core.errors import Unauthorized, Unavailable
from xmcloud.core.identity import MemberName

CERTS = "https://www.googleapis.com/oauth2/v1/certs"
"""Where Google publishes the certificates of its ID tokens (OpenID Connect, "Validating")."""

ISSUERS = frozenset({"accounts.google.com", "https://accounts.google.com"})

CLI_AUDIENCES = frozenset(
    {
        "32555940559.apps.googleusercontent.com",
        "764086051850-6qr4p6gpi6hn506pt8ejuq83di341hur.apps.googleusercontent.com",
    }
)
"""Of the tokens that gcloud, and application default credentials, have of a person: these can
name no other audience. A service account can, and must."""

SKEW_SECONDS = 10
"""By which the clocks of Google and of this machine may differ."""

_AGAIN_SECONDS = 60.0
"""Between two looks for a certificate that is not there."""

_MAX_AGE = re.compile(r"max-age=(\d+)")
_NAME: TypeAdapter[str] = TypeAdapter(MemberName)
_SERVICE_ACCOUNT = ".gserviceaccount.com"


class Certificates:
    """Google's, fetched when they are first needed and kept for as long as their answer says."""

    def __init__(
        self, url: str = CERTS, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._url, self._monotonic = url, monotonic
        self._found: dict[str, str] = {}
        self._fresh_until = self._fetched_at = float("-inf")
        self._lock = asyncio.Lock()

    async def of(self, key: str) -> Mapping[str, str]:
        """By key. Raises `Unavailable`."""
        async with self._lock:
            now = self._monotonic()
            missing = key not in self._found and now - self._fetched_at >= _AGAIN_SECONDS
            if now >= self._fresh_until or missing:
                await self._fetch(now)
            return self._found

    async def _fetch(self, now: float) -> None:
        try:
            async with httpx.AsyncClient(timeout=10) as client:
                answer = await client.get(self._url)
            answer.raise_for_status()
            self._found = {str(key): str(pem) for key, pem in answer.json().items()}
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            why = type(error).__name__
            raise Unavailable(
                f"Google's certificates cannot be read ({why}).", "Try again in a moment."
            ) from error
        age = _MAX_AGE.search(answer.headers.get("cache-control", ""))
        self._fetched_at = now
        self._fresh_until = now + (float(age[1]) if age else _AGAIN_SECONDS)


class GoogleIdTokens:
    """Verifies signature, issuer, audience and times."""

    def __init__(self, certificates: Certificates, audiences: Collection[str]) -> None:
        self._certificates, self._audiences = certificates, frozenset(audiences)

    async def verify(self, token: str) -> str | None:
        """The e-mail address, in small letters; None of what is no ID token at all.

        Raises `Unauthorized` and `Unavailable`.
        """
        try:
            header = jwt.decode_header(token)
        except (exceptions.GoogleAuthError, ValueError):
            return None
        certificates = await self._certificates.of(str(header.get("kid", "")))
        try:
            claims: Mapping[str, Any] = await asyncio.to_thread(
                jwt.decode, token, certs=certificates, clock_skew_in_seconds=SKEW_SECONDS
            )
        except (exceptions.GoogleAuthError, ValueError, TypeError) as error:
            raise _refused(str(error)) from error
        return self._email(claims)

    def _email(self, claims: Mapping[str, Any]) -> str:
        if claims.get("iss") not in ISSUERS:
            raise _refused(f"its issuer is {claims.get('iss')!r}, not Google")
        if claims.get("email_verified") is not True:
            raise _refused("it names no verified e-mail address")
        try:
            email = _NAME.validate_python(claims.get("email"))
        except ValidationError:
            raise _refused(f"{claims.get('email')!r} can be no member's name") from None
        audiences = self._audiences
        if not email.endswith(_SERVICE_ACCOUNT):
            audiences |= CLI_AUDIENCES
        if str(claims.get("aud")) not in audiences:
            raise _refused(f"it is for {claims.get('aud')!r} and not for this API")
        return email


def _refused(why: str) -> Unauthorized:
    return Unauthorized(f"Google's ID token was not accepted: {why}.", "Sign in: xmcloud login")
