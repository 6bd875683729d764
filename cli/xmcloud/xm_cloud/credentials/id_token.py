"""Google's ID tokens, as who carries them reads them: they are verified elsewhere."""

import base64
import json
from dataclasses import dataclass, field
from typing import Self

from xmcloud.core.errors import Unauthorized

_EARLY_SECONDS = 300.0
"""Before its end, a token is replaced: so long may a request be under way."""

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class IdToken:
    """Times are seconds since 1970."""

    text: str = field(repr=False)
    email: str
    audience: str
    refresh_at: float
    expires_at: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `Unauthorized` for what is none."""
        try:
            payload = text.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            end = float(claims["exp"])
            lifetime = end - float(claims.get("iat", end - _HOUR))
            email, audience = str(claims.get("email", "")), str(claims.get("aud", ""))
        except (IndexError, ValueError, TypeError, KeyError, AttributeError):
            raise Unauthorized("What came in place of an ID token is none.") from None
        return cls(text, email, audience, end - min(_EARLY_SECONDS, lifetime / 2), end)
