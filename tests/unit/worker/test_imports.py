"""What an idle worker keeps in memory."""

from tests.support.imports import loaded_by


def test_a_worker_loads_nothing_of_google_and_no_server() -> None:
    loaded = loaded_by("xmcloud.worker.main")
    assert "aiohttp" in loaded
    assert (
        loaded
        & {"google", "grpc", "httpx", "fastapi", "starlette", "sqlite3", "docker", "requests"}
        == set()
    )
