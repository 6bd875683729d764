"""The one route of the control plane that the process of an attempt speaks to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from xmcloud.core.protocol import Problem
from xmcloud.core.worker_protocol import (
    AttemptAnswer,
    AttemptReports,
    Finished,
    Output,
    Report,
    ReportResult,
    StopOrder,
)

JOB, FENCE, TOKEN = "abcdefghij234567", 2, "secret-of-this-attempt"
Reports = list[Report]


class AttemptApi:
    """Takes reports, unless `problem_of` objects; answers `statuses` with `refusal` before."""

    def __init__(self, folder: str) -> None:
        self.url, self._folder = "", folder
        self.identities: list[str | None] = []
        """What each request showed to the gate of Cloud Run."""
        self.taken: Reports = []
        self.requests = 0
        self.statuses: list[int] = []
        self.stop: str | None = None
        self.refusal = b'{"type": "urn:xmcloud:problem:some", "detail": "no"}'
        self.problem_of: Callable[[Report], Problem | None] = lambda _: None
        self.heard = threading.Condition()

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process report here."""
        return {
            "XMCLOUD_URL": self.url,
            "XMCLOUD_JOB_ID": JOB,
            "XMCLOUD_ATTEMPT": str(FENCE),
            "XMCLOUD_ATTEMPT_TOKEN": TOKEN,
            "TMPDIR": self._folder,
        }

    @property
    def log(self) -> bytes:
        """The output that was taken; fails when a piece is missing or comes twice."""
        log = b""
        for report in self.taken:
            if isinstance(report, Output):
                assert report.offset == len(log)
                log += report.data
        return log

    @property
    def end(self) -> Finished:
        last = self.taken[-1]
        assert isinstance(last, Finished)
        return last

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.heard:
            assert self.heard.wait_for(condition, 30)

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        with self.heard:
            self.requests += 1
            status = self.statuses.pop(0) if self.statuses else 200
            assert path == f"/v1/attempts/{JOB}/{FENCE}/reports"
            assert authorization == f"Bearer {TOKEN}"
            answer = self._take(AttemptReports.model_validate_json(body)) if status == 200 else None
            self.heard.notify_all()
        return status, answer.model_dump_json().encode() if answer else self.refusal

    def _take(self, body: AttemptReports) -> AttemptAnswer:
        results = []
        for report in body.reports:
            problem = self.problem_of(report)
            results.append(ReportResult(job_id=JOB, fence=FENCE, problem=problem))
            if problem is None:
                self.taken.append(report)
        stop = StopOrder(job_id=JOB, fence=FENCE, message=self.stop) if self.stop else None
        return AttemptAnswer(results=results, stop=stop)


@contextmanager
def attempt_api(folder: str) -> Iterator[AttemptApi]:
    """Served in threads; processes that report to it have `folder` for their files."""
    api = AttemptApi(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """What the metadata server of a machine in Google Cloud tells."""
            known = self.headers["Metadata-Flavor"] == "Google"
            _, _, audience = self.path.partition("/default/identity?audience=")
            answer = f"identity-for-{unquote(audience)}".encode()
            self.send_response(200 if known and audience else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_POST(self) -> None:
            api.identities.append(self.headers["X-Serverless-Authorization"])
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = api.answer(self.path, self.headers["Authorization"], body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
