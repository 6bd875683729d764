"""Tokens with which the process of an attempt tells of itself, and of nothing else."""

import hmac
import secrets
from dataclasses import dataclass, field

from xmcloud.core.errors import Unauthorized


@dataclass(frozen=True, slots=True)
class AttemptTokens:
    """Derived from a secret of the control plane, so that none is stored."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def token(self, job: str, fence: int | str) -> str:
        return hmac.digest(self.secret, f"attempt/{job}/{fence}".encode(), "sha256").hex()

    def check(self, token: str, job: str, fence: int | str) -> None:
        """Raises `Unauthorized`."""
        if not hmac.compare_digest(token.encode(), self.token(job, fence).encode()):
            raise Unauthorized(
                f"The token of this request is not that of attempt {fence} of job {job}.",
                "Send the one in XMCLOUD_ATTEMPT_TOKEN of the attempt's own environment.",
            )
