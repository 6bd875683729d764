"""Whom a bearer token stands for."""

import hmac
import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from xmcloud.core.control.members import member_principal, token_principal
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import Unauthorized
from xmcloud.core.identity import Principal


class Authenticator(Protocol):
    """Knows one kind of token."""

    async def authenticate(self, plane: ControlPlane, token: str) -> Principal | None:
        """None of a token of another kind. Raises `Unauthorized` and `Unavailable`."""


class ApiTokens:
    """Those that admins make for machines."""

    async def authenticate(self, plane: ControlPlane, token: str) -> Principal | None:
        return await token_principal(plane, token)


class IdTokens(Protocol):
    """Tokens that somebody else gives to people and service accounts."""

    async def verify(self, token: str) -> str | None:
        """The name, an e-mail address in small letters; None of what is no such token.

        Raises `Unauthorized` and `Unavailable`.
        """


class SignedIn:
    """Who has an ID token; `admins` may do everything, others what they are members for."""

    def __init__(self, tokens: IdTokens, admins: Collection[str]) -> None:
        self._tokens, self._admins = tokens, frozenset(name.lower() for name in admins)

    async def authenticate(self, plane: ControlPlane, token: str) -> Principal | None:
        name = await self._tokens.verify(token)
        return None if name is None else await member_principal(plane, name, self._admins)


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

    async def authenticate(self, plane: ControlPlane, token: str) -> Principal | None:
        if hmac.compare_digest(token.encode(), self._token):
            return Principal.owning()
        return None


async def principal_of(
    plane: ControlPlane, authenticators: Sequence[Authenticator], token: str
) -> Principal:
    """Whom the token stands for. Raises `Unauthorized`."""
    for authenticator in authenticators:
        principal = await authenticator.authenticate(plane, token)
        if principal is not None:
            return principal
    raise Unauthorized(
        "The token of this request is none of this control plane's.",
        "Sign in: xmcloud login; on this machine: xmcloud down, then xmcloud up.",
    )
