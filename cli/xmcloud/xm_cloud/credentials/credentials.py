"""What requests carry, so that the control plane knows who asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

Headers = Mapping[str, str]


class Credentials(Protocol):
    """May be used by several threads at once."""

    def at_hand(self) -> Headers | None:
        """Those of the next request, if nobody has to be asked for them."""

    def headers(self) -> Headers:
        """Those of the next request. Raises `Unauthorized` and `Unavailable`."""

    def renew(self, refused: Headers) -> bool:
        """Whether there are others now than those that were refused. Raises as `headers`."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A token that stays as it is; '' for none."""

    token: str = field(repr=False)

    def at_hand(self) -> Headers:
        return self.headers()

    def headers(self) -> Headers:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def renew(self, refused: Headers) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Behind:
    """A token for the control plane, and an identity for the gate of Cloud Run before it."""

    token: Fixed
    gate: Credentials

    def at_hand(self) -> Headers | None:
        gate = self.gate.at_hand()
        return None if gate is None else {**gate, **self.token.headers()}

    def headers(self) -> Headers:
        return {**self.gate.headers(), **self.token.headers()}

    def renew(self, refused: Headers) -> bool:
        return self.headers() != refused or self.gate.renew(self.gate.headers())


def given(token: "str | Credentials") -> Credentials:
    """A token in one's hand is credentials, too."""
    return Fixed(token) if isinstance(token, str) else token
