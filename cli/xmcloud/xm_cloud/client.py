"""The control plane's HTTP API as typed calls."""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from xmcloud.core.base import Model
from xmcloud.core.blobs import BlobParts, CompleteBlob, StoredBlob
from xmcloud.core.builds import Build
from xmcloud.core.errors import RateLimited, Unavailable
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.models import Experiment, Job, QueueState, Session, Statistics
from xmcloud.core.protocol import (
    Act,
    Acted,
    Builds,
    Changes,
    CloneExperiment,
    EditExperiment,
    EditJob,
    Enqueue,
    Experiments,
    ExperimentStatus,
    Health,
    Jobs,
    LogSlice,
    Move,
    NewBuild,
    NewExperiment,
    NewQueue,
    NewUnits,
    Pending,
    PendingExperiment,
    Queues,
    QueueStatus,
    Sessions,
    Stop,
    Targets,
    WorkerStatus,
)
from xmcloud.core.trace import Trace
from xmcloud.xm_cloud import tracing
from xmcloud.xm_cloud.credentials.credentials import Credentials, given
from xmcloud.xm_cloud.places import address
from xmcloud.xm_cloud.problems import BUSY, refusal, unavailable
from xmcloud.xm_cloud.transport import Body, Query, asked_pause, exchange, http_client

if TYPE_CHECKING:
    import httpx

    from xmcloud.xm_cloud.archives.uploads import Sent

M = TypeVar("M", bound=Model)
Method = Literal["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]

ATTEMPTS = 5
FIRST_DELAY = 0.05


COMPLETE_SECONDS = 540.0
"""How much longer an answer may take for which a blob of many parts is read."""

DOWNLOAD_BYTES = 8 * 1024 * 1024
"""What memory holds of a blob that comes in pieces; whole records of series."""


class Client:
    """Speaks to one control plane; may be used by several threads at once.

    Requests that are safe to repeat are repeated a few times over about a second, and those that
    came too fast for the control plane when it says. Every method
    raises the class of `xmcloud.core.errors` that the answer names, and `Unavailable` when there
    is no answer.
    """

    dry: ClassVar[bool] = False
    """Whether it only writes down what it is asked for: then nothing is built, and nothing runs."""

    def __init__(
        self,
        url: str,
        token: str | Credentials,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._http = http_client(self.url, given(token))
        self._sleep = sleep
        self._trace = tracing.origin()

    @classmethod
    def connected(cls) -> Self:
        """As `connect`."""
        place = address()
        return cls(place.url, place.credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, also those of requests under way in other threads."""
        self._http.close()

    def below(self, trace: Trace) -> Self:
        """The same client, whose requests belong to that trace."""
        other = copy(self)
        other._trace = trace
        return other

    def health(self) -> Health:
        return self._get(Health, "/v1/health")

    def create_experiment(self, new: NewExperiment, key: str | None = None) -> Experiment:
        """The same key with the same request gives the same experiment."""
        # A control plane of an earlier version knows no projects.
        left_out = {"project"} if new.project == DEFAULT_PROJECT else None
        body = new.model_dump_json(exclude=left_out).encode()
        return self._create(Experiment, "/v1/experiments", body, key)

    def experiments(
        self, limit: int = 50, cursor: str | None = None, project: str | None = None
    ) -> Experiments:
        """A page, the newest first."""
        query = {"limit": limit, "cursor": cursor, "project": project}
        return self._get(Experiments, "/v1/experiments", query)

    def experiment(self, id: str) -> ExperimentStatus:
        """By its id or the beginning of it."""
        return self._get(ExperimentStatus, f"/v1/experiments/{_part(id)}")

    def edit_experiment(self, id: str, edit: EditExperiment) -> Experiment:
        """Changes the title, tags or notes; fields that were not set stay as they are."""
        return self._edit(Experiment, f"/v1/experiments/{_part(id)}", edit)

    def add_units(self, experiment: str, new: NewUnits, key: str | None = None) -> list[Job]:
        """The jobs, in the order of the request."""
        return self._create(Jobs, f"/v1/experiments/{_part(experiment)}/units", new, key).jobs

    def jobs_of(
        self, experiment: str, page: int = 200, *, unit: int | None = None
    ) -> Iterator[Job]:
        """All jobs of the experiment, or of one unit, in order of unit; asks page by page."""
        return self._pages(f"/v1/experiments/{_part(experiment)}/jobs", page, unit=unit)

    def changes(
        self, experiment: str, since: str | None = None, wait_seconds: float = 0
    ) -> Changes:
        """Jobs that changed since the cursor, all without one; waits for the first change."""
        return self._get(
            Changes,
            f"/v1/experiments/{_part(experiment)}/changes",
            {"since": since, "wait_seconds": wait_seconds},
            wait_seconds,
        )

    def pending_in(self, experiment: str) -> PendingExperiment:
        """Why those of its jobs wait that do, grouped by the causes."""
        return self._get(PendingExperiment, f"/v1/experiments/{_part(experiment)}/pending")

    def clone_experiment(
        self, id: str, clone: CloneExperiment, key: str | None = None
    ) -> Experiment:
        """A new experiment with the same jobs but for the changes: drafts, or in a queue."""
        return self._create(Experiment, f"/v1/experiments/{_part(id)}/clone", clone, key)

    def stop_experiment(self, id: str, stop: Stop) -> Acted:
        return self._send(Acted, "POST", f"/v1/experiments/{_part(id)}/stop", stop)

    def reset_experiment(self, id: str, act: Act) -> Acted:
        return self._send(Acted, "POST", f"/v1/experiments/{_part(id)}/reset", act)

    def enqueue_experiment(self, id: str, enqueue: Enqueue) -> Acted:
        return self._send(Acted, "POST", f"/v1/experiments/{_part(id)}/enqueue", enqueue)

    def dequeue_experiment(self, id: str, act: Act) -> Acted:
        return self._send(Acted, "POST", f"/v1/experiments/{_part(id)}/dequeue", act)

    def job(self, id: str) -> Job:
        """By its id or the beginning of it."""
        return self._get(Job, f"/v1/jobs/{_part(id)}")

    def pending(self, job: str) -> Pending:
        """Why the job does not run yet; without causes once it has started."""
        return self._get(Pending, f"/v1/jobs/{_part(job)}/pending")

    def edit_job(self, id: str, edit: EditJob) -> Job:
        """Changes a draft; fields that were not set stay as they are."""
        return self._edit(Job, f"/v1/jobs/{_part(id)}", edit)

    def clone_job(self, id: str, clone: CloneExperiment, key: str | None = None) -> Experiment:
        """A new experiment with that job and its group: drafts, or in a queue."""
        return self._create(Experiment, f"/v1/jobs/{_part(id)}/clone", clone, key)

    def stop_job(self, id: str, stop: Stop) -> Job:
        return self._send(Job, "POST", f"/v1/jobs/{_part(id)}/stop", stop)

    def reset_job(self, id: str, act: Act) -> Job:
        return self._send(Job, "POST", f"/v1/jobs/{_part(id)}/reset", act)

    def enqueue_job(self, id: str, enqueue: Enqueue) -> Job:
        return self._send(Job, "POST", f"/v1/jobs/{_part(id)}/enqueue", enqueue)

    def dequeue_job(self, id: str, act: Act) -> Job:
        return self._send(Job, "POST", f"/v1/jobs/{_part(id)}/dequeue", act)

    def move_job(self, id: str, move: Move) -> Job:
        return self._send(Job, "POST", f"/v1/jobs/{_part(id)}/move", move)

    def log(
        self, job: str, fence: int | None = None, offset: int = 0, wait_seconds: float = 0
    ) -> LogSlice:
        """Output from byte `offset` on, of the newest attempt without a fence; waits for some."""
        return self._get(
            LogSlice,
            f"/v1/jobs/{_part(job)}/log",
            {"fence": fence, "offset": offset, "wait_seconds": wait_seconds},
            wait_seconds,
        )

    def queues(self) -> list[QueueStatus]:
        return self._get(Queues, "/v1/queues").queues

    def queue(self, name: str) -> QueueStatus:
        return self._get(QueueStatus, f"/v1/queues/{_part(name)}")

    def create_queue(self, new: NewQueue, key: str | None = None) -> QueueState:
        return self._create(QueueState, "/v1/queues", new, key)

    def pause_queue(self, name: str, act: Act) -> QueueState:
        return self._send(QueueState, "POST", f"/v1/queues/{_part(name)}/pause", act)

    def resume_queue(self, name: str, act: Act) -> QueueState:
        return self._send(QueueState, "POST", f"/v1/queues/{_part(name)}/resume", act)

    def queue_jobs(self, name: str, page: int = 200) -> Iterator[Job]:
        """What waits in the queue, in order; asks page by page."""
        return self._pages(f"/v1/queues/{_part(name)}/jobs", page)

    def workers(self) -> Sessions:
        """The sessions of workers that are connected."""
        return self._get(Sessions, "/v1/workers")

    def worker(self, name: str) -> WorkerStatus:
        """One that is connected, what it runs, and what its machine used lately."""
        return self._get(WorkerStatus, f"/v1/workers/{_part(name)}")

    def drain_worker(self, name: str) -> Session:
        """It finishes what runs and takes no more."""
        return self._answer(Session, "POST", f"/v1/workers/{_part(name)}/drain")

    def resume_worker(self, name: str) -> Session:
        """It takes jobs again."""
        return self._answer(Session, "POST", f"/v1/workers/{_part(name)}/resume")

    def stop_worker(self, name: str) -> Session:
        """It gives its jobs back and ends."""
        return self._answer(Session, "POST", f"/v1/workers/{_part(name)}/stop")

    def statistics(self, job: str, fence: int | None = None) -> Statistics:
        """What an attempt used, the newest by default."""
        return self._get(Statistics, f"/v1/jobs/{_part(job)}/statistics", {"fence": fence})

    def create_build(self, new: NewBuild, key: str | None = None) -> Build:
        """The build of that spec; one that is there or under way is not made again."""
        return self._create(Build, "/v1/builds", new, key)

    def builds(self, limit: int = 50, cursor: str | None = None) -> Builds:
        """The newest first."""
        return self._get(Builds, "/v1/builds", {"limit": limit, "cursor": cursor})

    def stop_build(self, id: str, act: Act) -> Build:
        return self._send(Build, "POST", f"/v1/builds/{_part(id)}/stop", act)

    def targets(self) -> Targets:
        return self._get(Targets, "/v1/targets")

    def build(self, id: str, wait: float = 0) -> Build:
        """The build; with `wait`, when it has ended or so many seconds have passed."""
        return self._get(Build, f"/v1/builds/{_part(id)}", {"wait": wait}, wait)

    def has_blob(self, digest: str) -> bool:
        response = self._request("HEAD", f"/v1/blobs/{digest}")
        if response.status_code == 404:
            return False
        self._raise_problem(response)
        return True

    def put_blob(self, digest: str, data: bytes, sent: "Sent | None" = None) -> None:
        """Idempotent; the control plane checks the digest."""
        self._put_bytes(f"/v1/blobs/{digest}", data, sent)

    def parts(self, digest: str) -> set[str]:
        """The digests of the parts that are there of a blob that is not complete."""
        answer = self._get(BlobParts, f"/v1/blobs/{digest}/parts")
        return {part.digest for part in answer.parts}

    def put_part(self, digest: str, part: str, data: bytes, sent: "Sent | None" = None) -> None:
        """Idempotent; at most `PART_LIMIT` bytes."""
        self._put_bytes(f"/v1/blobs/{digest}/parts/{part}", data, sent)

    def complete_blob(self, digest: str, parts: Sequence[str]) -> None:
        """Makes the blob of its parts. Idempotent; the control plane reads all of them."""
        self._answer(
            StoredBlob,
            "POST",
            f"/v1/blobs/{digest}/complete",
            body=CompleteBlob(parts=tuple(parts)).model_dump_json().encode(),
            headers={"Idempotency-Key": digest},
            wait=COMPLETE_SECONDS,
        )

    def get_blob(self, digest: str) -> bytes:
        response = self._request("GET", f"/v1/blobs/{digest}")
        self._raise_problem(response)
        return response.content

    def blob_size(self, digest: str) -> int | None:
        """Bytes, None of a blob that is not there."""
        response = self._request("HEAD", f"/v1/blobs/{digest}")
        if response.status_code == 404:
            return None
        self._raise_problem(response)
        told = response.headers.get("content-length", "")
        if not told.isdigit():
            raise self._unavailable("did not tell the size of a blob")
        return int(told)

    def blob_pieces(self, digest: str, piece: int = DOWNLOAD_BYTES) -> Iterator[bytes]:
        """The content, `piece` bytes at a time; each is asked for, and repeated, by itself."""
        start, size = 0, None
        while size is None or start < size:
            wanted = {"Range": f"bytes={start}-{start + piece - 1}"}
            response = self._request("GET", f"/v1/blobs/{digest}", headers=wanted)
            self._raise_problem(response)
            told = response.headers.get("content-range", "").rpartition("/")[2]
            size = int(told) if told.isdigit() else len(response.content)
            if start < size and not response.content:
                raise self._unavailable("sent nothing of a blob")
            start += len(response.content)
            yield response.content

    def _put_bytes(self, path: str, data: bytes, sent: "Sent | None") -> None:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(len(data)),
        }
        body = data if sent is None else Body(data, sent)
        self._raise_problem(self._request("PUT", path, body=body, headers=headers))

    def _get(self, model: type[M], path: str, query: Query | None = None, wait: float = 0) -> M:
        return self._answer(model, "GET", path, query=query, wait=wait)

    def _send(self, model: type[M], method: Method, path: str, body: Model) -> M:
        return self._answer(model, method, path, body=body.model_dump_json().encode())

    def _edit(self, model: type[M], path: str, edit: Model) -> M:
        body = edit.model_dump_json(include=edit.model_fields_set).encode()
        return self._answer(model, "PATCH", path, body=body)

    def _create(self, model: type[M], path: str, body: Model | bytes, key: str | None) -> M:
        return self._answer(
            model,
            "POST",
            path,
            body=body if isinstance(body, bytes) else body.model_dump_json().encode(),
            headers={"Idempotency-Key": key or uuid.uuid4().hex},
        )

    def _pages(self, path: str, limit: int, **query: int | None) -> Iterator[Job]:
        cursor: str | None = None
        while True:
            page = self._get(Jobs, path, {**query, "limit": limit, "cursor": cursor})
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def _answer(self, model: type[M], method: Method, path: str, **request: Any) -> M:
        response = self._request(method, path, **request)
        self._raise_problem(response)
        try:
            return model.received(response.content)
        except ValidationError:
            raise self._unavailable("answered with something else than this version") from None

    def _request(
        self,
        method: Method,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | Body | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0,
    ) -> "httpx.Response":
        import httpx

        headers = {"Content-Type": "application/json", **(headers or {})}
        repeatable = method in ("GET", "HEAD", "PUT", "DELETE") or "Idempotency-Key" in headers
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                response = exchange(
                    self._http, self._trace, method, path, query or {}, body, headers, wait
                )
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if last:
                    raise self._unavailable("does not answer") from None
            except httpx.TransportError as error:
                if last or not repeatable:
                    raise self._unavailable(f"broke off ({type(error).__name__})") from None
            else:
                if response.status_code == RateLimited.status and not last:
                    self._sleep(asked_pause(response))
                    continue
                if last or not repeatable or response.status_code not in BUSY:
                    return response
            self._sleep(FIRST_DELAY * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError("unreachable")

    def _unavailable(self, what: str) -> Unavailable:
        return unavailable(self.url, what)

    def _raise_problem(self, response: "httpx.Response") -> None:
        if response.status_code >= 400:
            raise refusal(self.url, response.status_code, response.content)


def _part(name: str) -> str:
    """One segment of a path, whatever the name holds."""
    return quote(name, safe="") or "%20"


def connect() -> Client:
    """A client of the control plane that the environment or this machine's files name.

    Raises `Unavailable` or `Unauthorized` when there is none, or no safe token for it.
    """
    return Client.connected()
