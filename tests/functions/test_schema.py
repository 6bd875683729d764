"""A store that a newer version has changed is left alone."""

from pathlib import Path

import pytest
from cloudevents.http import CloudEvent

from tests.functions.api import Api
from tests.support.clock import START
from xmcloud.cli.checks.schema import schema_check
from xmcloud.core.control.sweep import sweep
from xmcloud.core.migrations import GRACE, LATEST, SCHEMA, NewerSchema, Schema, SchemaStatus
from xmcloud.functions import entrypoints

pytestmark = pytest.mark.anyio
NEWER = SCHEMA.create(Schema(version=LATEST + 1, by="9.1.0"))


async def test_requests_are_refused_and_health_is_told(api: Api) -> None:
    await api.plane.store.commit([NEWER])
    await api.call("GET", "/health")
    for method, path in (("GET", "/experiments"), ("POST", "/workers/ant/sessions")):
        refused = await api.refused(method, path, 503, {})
        assert refused.type == "urn:xmcloud:problem:newer-schema"
        assert "9.1.0" in refused.detail


async def test_a_schema_is_asked_for_once(api: Api) -> None:
    await api.call("GET", "/experiments")
    await api.plane.store.commit([NEWER])
    await api.call("GET", "/experiments")


async def test_it_tells_how_far_an_upgrade_is(api: Api) -> None:
    async def told() -> SchemaStatus:
        return await api.get(SchemaStatus, "/schema")

    assert await told() == SchemaStatus(version=0, latest=LATEST)
    await sweep(api.plane)
    waiting = SchemaStatus(version=0, latest=LATEST, next_look=START + GRACE)
    assert await told() == waiting
    assert "again at 00:10 UTC" in schema_check(waiting).detail
    api.clock.advance(GRACE)
    await sweep(api.plane)
    done = SchemaStatus(version=LATEST, latest=LATEST)
    assert await told() == done
    assert schema_check(done).detail.startswith(f"{LATEST}: documents have the form")


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of a home of its own."""
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    monkeypatch.setenv("XMCLOUD_PROFILE", "embedded")
    monkeypatch.setenv("XMCLOUD_HOME", str(tmp_path))
    entrypoints.service.cache_clear()


@pytest.mark.usefixtures("deployed")
async def test_events_are_refused_and_come_again() -> None:
    plane = entrypoints.service().plane
    await plane.store.commit([NEWER])
    event = CloudEvent({"type": "t", "source": "s"}, {"message": {"data": "e30="}})
    for handler in (entrypoints.sweep, entrypoints.build_event, entrypoints.platform_event):
        answering = handler(event)
        assert answering is not None
        with pytest.raises(NewerSchema, match=r"9\.1\.0"):
            await answering
    await plane.store.close()
    await plane.queue.close()
    entrypoints.service.cache_clear()
