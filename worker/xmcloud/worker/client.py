"""The worker's side of the HTTP API."""

import asyncio
import hashlib
import logging
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, NoReturn, Self, TypeVar

from pydantic import BaseModel, ValidationError

from xmcloud.core.base import Model
from xmcloud.core.errors import (
    LeaseLost,
    NotFound,
    RateLimited,
    StorageFull,
    Unavailable,
    XmcloudError,
)
from xmcloud.core.models import Session
from xmcloud.core.names import random_id
from xmcloud.core.protocol import Problem, Sessions
from xmcloud.core.secrets import ResolvedSecrets
from xmcloud.core.worker_protocol import (
    AttemptRef,
    Lease,
    OpenSession,
    Pull,
    Pulled,
    Settle,
    Sync,
    SyncAnswer,
)
from xmcloud.worker.tracing import traced
from xmcloud.worker.wire import HttpWire, Response, Wire
from xmcloud.xm_cloud.credentials.credentials import Credentials, given

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_SECONDS = 30.0
_PIECE_BYTES = 8 * 1024 * 1024
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_PASSING = {429, 500, 502, 503, 504}

logger = logging.getLogger("xmcloud.worker")
Answer = TypeVar("Answer", bound=Model)
Result = TypeVar("Result")


class Refused(XmcloudError):
    """The API refused a request; sending it again would not help."""

    slug, title = "refused", "The control plane refused"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title, problem.remedy)
        self.problem = problem


class _Slowed(Unavailable):
    """The API takes the request later, and says when."""

    def __init__(self, detail: str, seconds: float) -> None:
        super().__init__(detail)
        self.seconds = seconds


class DamagedBlob(XmcloudError):
    """The bytes that came are not those that the digest names."""

    slug, title = "damaged-blob", "A file arrived damaged"


class _Piece(NamedTuple):
    """Bytes of a blob, and how many it has in all."""

    data: bytes
    size: int


class ApiClient:
    """One connection pool to one control plane.

    Methods that insist try again until the API answers; the others raise `Unavailable`.
    """

    def __init__(self, wire: Wire, url: str) -> None:
        self._wire = wire
        self._url = url
        self._away = False
        self._pause = _FIRST_PAUSE_SECONDS

    @classmethod
    def to(cls, url: str, token: str | Credentials) -> Self:
        """Belongs to the event loop that runs."""
        return cls(HttpWire(url, given(token)), url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._wire.close()

    async def open_session(self, worker: str, request: OpenSession) -> Lease:
        """Insists. Raises `Refused`."""
        key = {"idempotency-key": random_id()}
        return await self._insist(
            lambda: self._post(f"/v1/workers/{worker}/sessions", request, Lease, headers=key)
        )

    async def sync(self, session: str, request: Sync) -> SyncAnswer:
        """Raises `Unavailable`, `StorageFull`, `LeaseLost` and `Refused`."""
        try:
            return await self._post(f"/v1/sessions/{session}/sync", request, SyncAnswer)
        except Refused as error:
            if error.problem.status == NotFound.status:
                raise LeaseLost(session) from error
            raise

    async def close_session(self, session: str) -> None:
        """Insists. Raises `LeaseLost` and `Refused`."""
        await self._insist(lambda: self._post(f"/v1/sessions/{session}/close", b"{}", Session))

    async def resolve_secrets(self, session: str, attempt: AttemptRef) -> ResolvedSecrets:
        """Insists. Raises `LeaseLost` and `Refused`."""
        path = f"/v1/sessions/{session}/secrets"
        try:
            return await self._insist(lambda: self._post(path, attempt, ResolvedSecrets))
        except Refused as error:
            if error.problem.type.endswith(":not-found"):
                raise LeaseLost(session) from error
            raise

    async def open_sessions(self) -> Sessions:
        """Insists. Raises `Refused`."""
        return await self._insist(self._open_sessions)

    async def pull(self, request: Pull) -> Pulled:
        """Raises `Unavailable`, `StorageFull` and `Refused`."""
        path, wait = "/v1/messages/pull", request.wait_seconds
        return await self._post(path, request, Pulled, server_seconds=wait)

    async def settle(self, request: Settle) -> None:
        """Raises `Unavailable`, `StorageFull` and `Refused`."""
        await self._send("/v1/messages/settle", _encode(request))

    async def download(self, digest: str, target: Path) -> None:
        """Write a blob to a new file; insists. Raises `Refused`, `DamagedBlob` and OSError.

        It comes in pieces, of which memory holds one; what broke off goes on at the last.
        """
        found = hashlib.sha256()
        with target.open("wb") as file:
            start, size = 0, None
            while size is None or start < size:
                piece = await self._insist(partial(self._piece, digest, start))
                await asyncio.to_thread(_take, piece.data, file, found)
                start, size = start + len(piece.data), piece.size
        if found.hexdigest() != digest:
            raise DamagedBlob(f"Blob {digest} arrived with digest {found.hexdigest()}.")

    async def exchange(
        self, method: str, path: str, body: bytes = b"", *, server_seconds: float = 0.0
    ) -> Response:
        """Bytes, and the answer; insists. Raises `Refused`."""
        headers = {"content-type": "application/octet-stream"} if method == "PUT" else _NO_HEADERS
        return await self._insist(lambda: self._send(path, body, headers, server_seconds, method))

    async def _piece(self, digest: str, start: int) -> "_Piece":
        wanted = {"range": f"bytes={start}-{start + _PIECE_BYTES - 1}"}
        response = await self._send(f"/v1/blobs/{digest}", headers=wanted, method="GET")
        if response.status == 200 and start == 0:
            return _Piece(response.body, len(response.body))
        said = re.fullmatch(rf"bytes {start}-\d+/(\d+)", response.content_range)
        if said is None or not response.body:
            raise Unavailable(f"the answer to {response.path} is not the range that was asked for")
        return _Piece(response.body, int(said[1]))

    async def _open_sessions(self) -> Sessions:
        return _parse(Sessions, await self._send("/v1/workers", method="GET"))

    async def _post(
        self,
        path: str,
        request: BaseModel | bytes,
        answer: type[Answer],
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        server_seconds: float = 0.0,
    ) -> Answer:
        body = request if isinstance(request, bytes) else _encode(request)
        return _parse(answer, await self._send(path, body, headers, server_seconds))

    async def _send(
        self,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
        server_seconds: float = 0.0,
        method: str = "POST",
    ) -> Response:
        """`server_seconds`: how long the server may take because it was asked to wait."""
        seconds = _SECONDS + server_seconds
        with traced(method, path) as above:
            response = await self._wire.send(method, path, body, {**headers, **above}, seconds)
            if response.is_error:
                _raise_for(response)
        if self._away:
            self._away, self._pause = False, _FIRST_PAUSE_SECONDS
            logger.info("connected again")
        return response

    async def pause(self, error: Unavailable | StorageFull) -> None:
        """Before the next attempt: longer each time until a request gets through."""
        if not self._away:
            self._away = True
            logger.warning("%s does not answer (%s); trying again", self._url, error.detail)
        asked = error.seconds if isinstance(error, _Slowed) else 0.0
        await asyncio.sleep(max(asked, self._pause * random.uniform(0.5, 1.0)))  # noqa: S311
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    async def _insist(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        while True:
            try:
                return await attempt()
            except (Unavailable, StorageFull) as error:
                await self.pause(error)


def _take(data: bytes, file: BinaryIO, found: "hashlib._Hash") -> None:
    found.update(data)
    file.write(data)


def _encode(model: BaseModel) -> bytes:
    return model.model_dump_json().encode()


def _parse(model: type[Answer], response: Response) -> Answer:
    try:
        return model.received(response.body)
    except ValidationError as error:
        about = f"the answer to {response.path} is not one of this version's API"
        raise Unavailable(about) from error


def _raise_for(response: Response) -> NoReturn:
    try:
        problem = Problem.received(response.body)
    except ValidationError:
        about = f"HTTP {response.status}"
        problem = Problem(type="about:blank", title=about, status=response.status, detail="")
    if response.status == RateLimited.status and response.retry_after.isdecimal():
        seconds = min(float(response.retry_after), _LONGEST_PAUSE_SECONDS)
        raise _Slowed(problem.detail or problem.title, seconds)
    if response.status in _PASSING:
        raise Unavailable(problem.detail or problem.title)
    if problem.type.endswith(":lease-lost"):
        raise LeaseLost(response.path.split("/")[-2])
    if response.status == StorageFull.status:
        raise StorageFull("the control plane's files")
    raise Refused(problem)
