"""What an idle worker keeps in memory."""

import subprocess
import sys


def test_a_worker_loads_nothing_of_google_and_no_server() -> None:
    program = (
        "import sys; before = set(sys.modules); import xmcloud.worker.main; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = [sys.executable, "-c", program]
    loaded = set(subprocess.run(run, check=True, capture_output=True, text=True).stdout.split())
    assert "aiohttp" in loaded
    assert loaded & {"google", "grpc", "httpx", "fastapi", "starlette", "sqlite3"} == set()
