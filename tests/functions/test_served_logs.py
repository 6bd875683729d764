"""What the API logs where it is deployed: JSON alone, errors with their stack, no secrets."""

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functions.api import HEADERS, problem
from tests.functions.test_framework import Deployment
from tests.support.servers import Server
from xmcloud.core.trace import Trace
from xmcloud.local.processes import answers, free_port

pytestmark = pytest.mark.slow


def lines(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.output.splitlines()]


def test_on_cloud_run_every_line_is_json(tmp_path: Path) -> None:
    deployment = Deployment(
        tmp_path,
        lambda clock, signals: pytest.fail("is not asked"),
        XMCLOUD_PROFILE="embedded",
        K_SERVICE="xmcloud-api",
        GOOGLE_CLOUD_PROJECT="p",
    )
    parent, port = Trace.new(), free_port()
    with deployment.start("api", port) as server:
        server.ready(answers(port, "/v1/health"))
        shutil.rmtree(tmp_path / "blobs")
        (tmp_path / "blobs").symlink_to("blobs")
        headers = {**HEADERS, "traceparent": str(parent)}
        base = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=base, headers=headers, trust_env=False) as client:
            assert client.get("/v1/queues", params={"key": "secret"}).status_code == 200
            mistake = client.get(f"/v1/blobs/{'a' * 64}")
        server.stop()
        told = [line for line in lines(server) if line.get("trace") == parent.trace_id]
    assert problem(mistake).type == "urn:xmcloud:problem:internal-error"
    assert mistake.headers["x-content-type-options"] == "nosniff"
    listed, broken, failed = told
    assert (listed["message"][:19], listed["severity"]) == ("GET /v1/queues 200 ", "INFO")
    assert listed["logging.googleapis.com/trace"] == f"projects/p/traces/{parent.trace_id}"
    assert broken["@type"].endswith("ReportedErrorEvent")
    assert "OSError" in broken["stack_trace"]
    assert broken["serviceContext"]["service"] == "xmcloud-api"
    assert (failed["route"], failed["status"]) == ("/v1/blobs/{digest}", 500)
    for secret in ("secret", HEADERS["Authorization"].removeprefix("Bearer ")):
        assert secret not in server.output
