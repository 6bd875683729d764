"""Requests to a control plane that may not be well: each is sent once, and waited for briefly."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Self, TypeVar

import httpx
from pydantic import ValidationError

from xmcloud.core.base import Model
from xmcloud.core.errors import Unavailable
from xmcloud.core.protocol import Health, Problem
from xmcloud.worker.settings import load_settings
from xmcloud.xm_cloud.credentials.bearer import Bearer
from xmcloud.xm_cloud.credentials.credentials import Credentials
from xmcloud.xm_cloud.places import address, home, named_elsewhere, on_this_machine
from xmcloud.xm_cloud.problems import error_of

M = TypeVar("M", bound=Model)

_FIRST_SECONDS = 3.0
_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """A control plane, the token for it, and where both are known from."""

    url: str
    credentials: Credentials
    source: str
    token_source: str

    @property
    def remedy(self) -> str:
        """What to do when it does not answer."""
        if self.source == "xmcloud up":
            return "xmcloud up"
        return f"See whether it is reached from here: curl -i {self.url}/v1/health"


def known_place(environ: Mapping[str, str] = os.environ) -> Place:
    """That of the commands; on a machine with a worker alone, the worker's.

    Raises what `address` and `load_settings` do.
    """
    folder = home(environ).absolute()
    here, worker = folder / "control.json", folder / "worker.json"
    if named_elsewhere(environ) or here.exists() or not worker.exists():
        found = address(environ)
        return Place(found.url, found.credentials, found.source, found.identity)
    settings = load_settings({}, environ)
    credentials, proof = settings.identity()
    if settings.token is not None and not environ.get("XMCLOUD_TOKEN"):
        proof = str(folder / "token")
    return Place(settings.url.rstrip("/"), credentials, str(worker), proof)


@dataclass(frozen=True, slots=True)
class Heard:
    """The first answer."""

    version: str
    seconds: float
    ahead_seconds: float | None
    """How far this machine's clock is ahead of the control plane's, give or take one second."""


class Line:
    """One connection; belongs to one thread. Every method raises `Unavailable` after a while."""

    def __init__(self, place: Place) -> None:
        self.place = place
        try:
            self._http = httpx.Client(
                base_url=place.url,
                auth=Bearer(place.credentials),
                verify=place.url.startswith("https://"),
                trust_env=not on_this_machine(place.url),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise Unavailable(f"{place.url} cannot be asked: {error}.", place.remedy) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def health(self) -> Heard:
        started, then = time.monotonic(), time.time()
        response = self._request("GET", "/v1/health", None, _FIRST_SECONDS)
        seconds = time.monotonic() - started
        told = self._parsed(Health, response)
        return Heard(told.version, seconds, _ahead(response, then + seconds / 2))

    def get(self, model: type[M], path: str) -> M:
        """Raises what the answer names, too."""
        return self._parsed(model, self._request("GET", path, None, _SECONDS))

    def post(self, model: type[M], path: str, body: Model | None = None, wait: float = 0) -> M:
        """Raises what the answer names, too."""
        content = body.model_dump_json().encode() if body else b"{}"
        return self._parsed(model, self._request("POST", path, content, _SECONDS + wait))

    def put_bytes(self, path: str, data: bytes) -> None:
        """Raises what the answer names, too."""
        self._check(self._request("PUT", path, data, _SECONDS))

    def get_bytes(self, path: str) -> bytes:
        """Raises what the answer names, too."""
        response = self._request("GET", path, None, _SECONDS)
        self._check(response)
        return response.content

    def _request(
        self, method: str, path: str, content: bytes | None, seconds: float
    ) -> httpx.Response:
        kind = "application/octet-stream" if method == "PUT" else "application/json"
        try:
            return self._http.request(
                method, path, content=content, headers={"Content-Type": kind}, timeout=seconds
            )
        except httpx.TimeoutException:
            raise self._unavailable(f"does not answer within {seconds:g} s") from None
        except httpx.ConnectError as error:
            raise self._unavailable(f"does not answer ({error})") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._unavailable(
                f"cannot be asked ({str(error) or type(error).__name__})"
            ) from None

    def _parsed(self, model: type[M], response: httpx.Response) -> M:
        self._check(response)
        try:
            return model.received(response.content)
        except ValidationError:
            raise self._unavailable("answers with something else than this version") from None

    def _check(self, response: httpx.Response) -> None:
        if response.status_code < 300:
            return
        try:
            error = error_of(Problem.received(response.content))
        except ValidationError:
            what = f"answers HTTP {response.status_code}, not as xmcloud does"
            raise self._unavailable(what) from None
        raise error

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(f"{self.place.url} {what}", self.place.remedy)


def _ahead(response: httpx.Response, now: float) -> float | None:
    """Against the middle of the two seconds in which a server may have said so."""
    try:
        told = parsedate_to_datetime(response.headers.get("Date", ""))
    except ValueError:
        return None
    return now - (told.timestamp() + 1)
