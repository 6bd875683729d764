"""A Google account whose ID token is asked for again before it expires."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from xmcloud.core.errors import Unauthorized, Unavailable
from xmcloud.xm_cloud.credentials.credentials import Headers
from xmcloud.xm_cloud.credentials.id_token import IdToken
from xmcloud.xm_cloud.credentials.private_files import read_private, write_private

_PAUSE_SECONDS = 30.0
"""Between two tries to replace a token that is still good, or that was refused when it was new."""


@dataclass(frozen=True, slots=True)
class KeptToken:
    """A file with the last token, so that not every command asks for one."""

    path: Path
    whose: str
    """The identity that it must be of: another one's is not used."""

    def load(self) -> IdToken | None:
        """Raises `Unauthorized` for a file that others can read."""
        text = read_private(self.path)
        try:
            found = json.loads(text or "null")
            return IdToken.parse(found["token"]) if found["of"] == self.whose else None
        except (ValueError, TypeError, KeyError, AttributeError, Unauthorized):
            return None

    def save(self, token: IdToken) -> None:
        """Where it cannot be kept, the next command asks again."""
        with suppress(OSError):
            write_private(self.path, json.dumps({"of": self.whose, "token": token.text}))


class GoogleIdentity:
    """Credentials of what `source` gives tokens for; it raises `Unauthorized` and `Unavailable`."""

    def __init__(
        self,
        source: Callable[[], str],
        kept: KeptToken | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._source, self._kept, self._now = source, kept, now
        self._token: IdToken | None = None
        self._fetched_at = self._again_at = float("-inf")
        self._lock = threading.Lock()

    def at_hand(self) -> Headers | None:
        token = self._known()
        return None if token is None or self._is_due(token) else _headers(token)

    def headers(self) -> Headers:
        return _headers(self.token())

    def token(self) -> IdToken:
        """A good one. Raises as the source."""
        with self._lock:
            token = self._known()
            return self._replaced(token) if token is None or self._is_due(token) else token

    def renew(self, refused: Headers) -> bool:
        with self._lock:
            before = self._known()
            if before is not None and _headers(before) != refused:
                return True
            if self._now() - self._fetched_at < _PAUSE_SECONDS:
                return False
            return _headers(self._fetched()) != refused

    def _known(self) -> IdToken | None:
        if self._token is None and self._kept is not None:
            self._token = self._kept.load()
        return self._token

    def _is_due(self, token: IdToken) -> bool:
        now = self._now()
        return now >= token.expires_at or now >= max(token.refresh_at, self._again_at)

    def _replaced(self, before: IdToken | None) -> IdToken:
        try:
            return self._fetched()
        except Unavailable:
            if before is None or self._now() >= before.expires_at:
                raise
            self._again_at = self._now() + _PAUSE_SECONDS
            return before

    def _fetched(self) -> IdToken:
        self._token = IdToken.parse(self._source())
        self._fetched_at = self._now()
        if self._kept is not None:
            self._kept.save(self._token)
        return self._token


def _headers(token: IdToken) -> Headers:
    """Cloud Run checks the second, and leaves the signature of the first alone."""
    bearer = f"Bearer {token.text}"
    return {"Authorization": bearer, "X-Serverless-Authorization": bearer}
