"""Completion asks a control plane, or stays quiet."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from xmcloud.cli.main import cli

ANSWERS: dict[str, Any] = {
    "/v1/experiments?limit=50": {
        "experiments": [
            {"experiment": {"id": "aaaa222222222222", "title": "digits"}},
            {"experiment": {"id": "bbbb222222222222", "title": "letters"}},
        ]
    },
    "/v1/experiments/aaaa/jobs?limit=100": {
        "jobs": [
            {"unit": 1, "name": "train", "state": "running"},
            {"unit": 12, "name": "train", "state": "queued"},
            {"unit": 2, "name": "eval", "state": "queued"},
        ]
    },
    "/v1/queues": {"queues": [{"queue": {"name": "default"}}, {"queue": {"name": "high"}}]},
    "/v1/workers": {"sessions": [{"pool": "local"}, {"pool": "gpu"}, {"pool": "gpu"}]},
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path in ANSWERS and self.headers["Authorization"] == "Bearer secret"
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWERS[self.path] if known else {}).encode())

    def log_message(self, *_: object) -> None:
        """Keeps quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as serving:
        Thread(target=serving.serve_forever, args=[0.01]).start()
        monkeypatch.setenv("XMCLOUD_URL", f"http://127.0.0.1:{serving.server_port}")
        monkeypatch.setenv("XMCLOUD_TOKEN", "secret")
        yield serving
        serving.shutdown()


def complete(words: str) -> list[str]:
    environment = {
        "_XMCLOUD_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    shown = CliRunner().invoke(
        cli, prog_name="xmcloud", complete_var="_XMCLOUD_COMPLETE", env=environment
    )
    assert (shown.exit_code, shown.stderr) == (0, "")
    return [line.partition(",")[2] for line in shown.stdout.splitlines() if line]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("xmcloud sto", ["stop"]),
        ("xmcloud queue p", ["pause"]),
        ("xmcloud show ", ["aaaa222222222222", "bbbb222222222222"]),
        ("xmcloud stop b", ["bbbb222222222222"]),
        ("xmcloud logs aaaa/1", ["aaaa/1", "aaaa/12"]),
        ("xmcloud logs cccc/", []),
        ("xmcloud queue pause d", ["default"]),
        ("xmcloud enqueue --queue ", ["default", "high"]),
        ("xmcloud run --pool ", ["gpu", "local"]),
    ],
)
def test_names_and_ids_are_offered(words: str, offered: list[str]) -> None:
    assert complete(words) == offered


@pytest.mark.usefixtures("server")
def test_a_token_that_is_refused_is_no_reason_to_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_TOKEN", "wrong")
    assert complete("xmcloud show ") == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense"])
def test_nobody_there_is_no_reason_to_speak(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_URL", url)
    monkeypatch.setenv("XMCLOUD_TOKEN", "secret")
    assert complete("xmcloud show ") == []
