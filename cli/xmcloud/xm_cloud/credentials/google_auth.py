"""google-auth as it is used here: imported late, its errors told without what they carry."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from xmcloud.core.errors import Unauthorized, Unavailable

_SECONDS = 20.0


class MissingGoogleAuth(Unauthorized):
    """A package is not installed without which nobody signs in with Google."""

    def __init__(self) -> None:
        super().__init__(
            "Signing in with Google needs google-auth, which is not installed.",
            "pip install 'xmcloud[gcp]'",
        )


def transport() -> Any:
    """What google-auth sends requests with. Raises `MissingGoogleAuth`."""
    try:
        from google.auth.transport.requests import Request
    except ImportError:
        raise MissingGoogleAuth from None
    # What it logs of an answer in debugging has tokens in it.
    logging.getLogger("google.auth.transport.requests").setLevel(logging.WARNING)
    return partial(Request(), timeout=_SECONDS)


@contextmanager
def told(whose: str, remedy: str) -> Iterator[None]:
    """Raises `Unavailable` for what may pass, else `Unauthorized`.

    Without the cause: what it holds of an answer may have a token in it.
    """
    try:
        from google.auth import exceptions
    except ImportError:
        raise MissingGoogleAuth from None
    try:
        yield
    except exceptions.TransportError as error:
        raise Unavailable(f"Google does not answer for {whose}: {_line(error)}.", "") from None
    except exceptions.GoogleAuthError as error:
        if error.retryable:
            raise Unavailable(f"Google does not answer for {whose}: {_line(error)}.", "") from None
        raise Unauthorized(f"Google refuses {whose}: {_line(error)}.", remedy) from None
    except (ValueError, TypeError, KeyError) as error:
        raise Unauthorized(f"{whose} is not usable ({type(error).__name__}).", remedy) from None


def _line(error: Exception) -> str:
    """What was said first, without the whole answer that may follow it."""
    said = error.args[0] if error.args else ""
    if isinstance(said, Exception):
        return type(said).__name__
    return (str(said).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
