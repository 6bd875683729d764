"""The sweep as Cloud Functions would start it, called as the schedule would call it."""

import base64
import os
import sys
from pathlib import Path

import httpx
import pytest

from tests.infra.conftest import ROOT, Applied
from tests.support.servers import running
from xmcloud.local.processes import free_port

FRAMEWORK = Path(sys.executable).with_name("functions-framework")


@pytest.mark.slow
def test_the_schedules_request_is_an_event_to_the_sweep(applied: Applied, tmp_path: Path) -> None:
    """A function without a trigger is told that its signature is `http`; the code knows better."""
    (target,) = applied.one("google_cloud_scheduler_job").values["http_target"]
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("t" * 48)
    port = free_port()
    environ = {
        **os.environ,
        "FUNCTION_SIGNATURE_TYPE": "http",
        "FUNCTION_SOURCE": str(ROOT / "functions" / "main.py"),
        "FUNCTION_TARGET": "sweep",
        "FUNCTION_USE_ASGI": "true",
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "XMCLOUD_HOME": str(tmp_path),
        "XMCLOUD_PROFILE": "embedded",
    }
    url = f"http://127.0.0.1:{port}/"

    def listens() -> bool:
        try:
            httpx.get(url)
        except httpx.TransportError:
            return False
        return True

    with running([str(FRAMEWORK)], tmp_path / "log", environ) as server:
        server.ready(listens)
        body = base64.b64decode(target["body"])
        swept = httpx.post(url, headers=target["headers"], content=body, timeout=60)
        assert (swept.status_code, swept.text) == (200, "OK")
        assert httpx.post(url, content=body, timeout=60).status_code == 400
        assert server.stop() == 0
