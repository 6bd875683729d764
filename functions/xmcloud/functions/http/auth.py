"""Who may call the API."""

import hmac
import os
import stat
from pathlib import Path
from typing import Protocol

from xmcloud.core.errors import Unauthorized


class Authenticator(Protocol):
    """Decides whether the bearer token of a request is good."""

    async def authenticate(self, token: str) -> None:
        """Raises `Unauthorized`."""


class TokenFile:
    """The one token of a control plane, in a file that only its owner can read."""

    def __init__(self, path: Path, *, mounted: bool = False) -> None:
        """A secret that is `mounted` into a container may have any mode: nobody else is in there.

        Raises `Unauthorized`.
        """
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except FileNotFoundError:
            raise Unauthorized(
                f"There is no token file {path}.",
                "Write a random token of at least 32 characters into it; chmod 600.",
            ) from None
        if mode & 0o077 and not mounted:
            raise Unauthorized(
                f"The token file {path} can be read by others (mode {mode:04o}).",
                f"Make it private: chmod 600 {path}",
            )
        self._token = path.read_text("utf-8").strip().encode()
        if not self._token:
            raise Unauthorized(f"The token file {path} is empty.", "Remove it and start again.")

    @property
    def secret(self) -> bytes:
        """What the tokens of attempts are derived from; a new token outdates them."""
        return self._token

    async def authenticate(self, token: str) -> None:
        if not hmac.compare_digest(token.encode(), self._token):
            raise Unauthorized(
                "The token of this request is not the control plane's.",
                "Use the one it was started with; on this machine: xmcloud down, then xmcloud up.",
            )
