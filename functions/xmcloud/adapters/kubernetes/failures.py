"""How the failures of an API server become the core's errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from xmcloud.core.errors import Unavailable
from xmcloud.core.platforms import PlatformRefused, QuotaExceeded

_REFUSALS = (400, 403, 404, 413, 422)


@contextmanager
def submitting() -> Iterator[None]:
    """Raises `QuotaExceeded`, `PlatformRefused` and `Unavailable` in place of the client's own."""
    with asking():
        try:
            yield
        except ApiException as error:
            if error.status == 403 and "exceeded quota" in told(error):
                raise QuotaExceeded(
                    f"The namespace is full: {told(error)}.", "It is tried again later."
                ) from error
            if error.status in _REFUSALS:
                raise PlatformRefused(
                    f"Kubernetes refused it: {told(error)}.", "Change the job, or the cluster."
                ) from error
            raise


@contextmanager
def asking() -> Iterator[None]:
    """Raises `Unavailable` in place of the client's own."""
    try:
        yield
    except ApiException as error:
        raise Unavailable(
            f"Kubernetes answered {error.status}: {told(error)}.", "Try again later."
        ) from error
    except (HTTPError, OSError, ConfigException) as error:
        raise Unavailable(f"Kubernetes does not answer: {error}.", "Try again later.") from error


def told(error: ApiException) -> str:
    """What the API server said of it."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
    return str(message).rstrip(".")
