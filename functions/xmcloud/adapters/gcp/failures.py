"""How the failures of Google's services become the core's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from google.api_core import exceptions

from xmcloud.core.errors import Unavailable

TRANSIENT = (
    exceptions.BadGateway,
    exceptions.GatewayTimeout,  # DEADLINE_EXCEEDED
    exceptions.InternalServerError,
    exceptions.ServiceUnavailable,
    exceptions.TooManyRequests,  # RESOURCE_EXHAUSTED
    exceptions.Unknown,
)


@contextmanager
def translated(service: str) -> Iterator[None]:
    """Raises `Unavailable` in place of a transient failure that outlived its retries."""
    try:
        yield
    except (*TRANSIENT, exceptions.RetryError) as error:
        raise Unavailable(f"{service} does not answer: {error}.", "Try again later.") from error
