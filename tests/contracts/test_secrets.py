"""What every `Secrets` promises."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.support.secret_manager import secret_manager
from xmcloud.adapters.files.secrets import FileSecrets
from xmcloud.core.errors import Unavailable
from xmcloud.core.secrets import VALUE_LIMIT, SecretMissing, Secrets, SecretsUnreadable

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["files", "secret-manager"])
async def pair(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[tuple[Secrets, Secrets]]:
    """As two processes have them."""
    if request.param == "files":
        yield FileSecrets(tmp_path), FileSecrets(tmp_path)
        return
    from xmcloud.adapters.gcp.secrets import SecretManager

    async with secret_manager() as (address, _):
        pair = SecretManager("p", address), SecretManager("p", address)
        yield pair
        for each in pair:
            await each.close()


@pytest.fixture
def secrets(pair: tuple[Secrets, Secrets]) -> Secrets:
    return pair[0]


@pytest.mark.parametrize("value", [b"hunter22", bytes(range(256)), b"x" * VALUE_LIMIT])
async def test_what_was_put_is_there_for_everybody(
    pair: tuple[Secrets, Secrets], value: bytes
) -> None:
    await pair[0].put("default", "wandb", value)
    assert await pair[1].get("default", "wandb") == value


async def test_the_last_value_counts(secrets: Secrets) -> None:
    for value in (b"first", b"second", b"third"):
        await secrets.put("default", "wandb", value)
    assert await secrets.get("default", "wandb") == b"third"


async def test_projects_and_names_are_apart(secrets: Secrets) -> None:
    places = [("a", "b-c"), ("a-b", "c"), ("a", "b")]
    for project, name in places:
        await secrets.put(project, name, f"{project} {name}".encode())
    found = [await secrets.get(*place) for place in places]
    assert found == [b"a b-c", b"a-b c", b"a b"]
    await secrets.delete("a", "b")
    assert await secrets.get("a-b", "c") == b"a-b c"


async def test_what_is_not_there_is_missing(secrets: Secrets) -> None:
    with pytest.raises(SecretMissing, match=r"Project vision has no secret 'wandb'.*--project"):
        await secrets.get("vision", "wandb")
    await secrets.delete("vision", "wandb")


async def test_what_was_deleted_is_gone_and_may_come_again(secrets: Secrets) -> None:
    await secrets.put("default", "wandb", b"before")
    await secrets.delete("default", "wandb")
    with pytest.raises(SecretMissing):
        await secrets.get("default", "wandb")
    await secrets.put("default", "wandb", b"after")
    assert await secrets.get("default", "wandb") == b"after"


async def test_those_who_put_at_once_keep_what_the_others_put(
    pair: tuple[Secrets, Secrets],
) -> None:
    names = [f"s{number}" for number in range(8)]
    await asyncio.gather(
        *(pair[i % 2].put("default", name, name.encode()) for i, name in enumerate(names))
    )
    assert [await pair[0].get("default", name) for name in names] == [n.encode() for n in names]


def test_the_files_are_for_their_owner_and_hold_no_value(tmp_path: Path) -> None:
    asyncio.run(FileSecrets(tmp_path).put("default", "wandb", b"hunter22-hunter22"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"secrets": 0o600, "secrets.key": 0o600, "secrets.lock": 0o600}
    assert b"hunter22" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda home: (home / "secrets").write_bytes(b"gAAAAA"), "is damaged"),
        (lambda home: (home / "secrets.key").write_bytes(b"no key"), "is not its key"),
        (lambda home: (home / "secrets.key").unlink(), "is gone"),
        (lambda home: (home / "secrets.key").chmod(0o644), "chmod 600"),
    ],
    ids=["file", "key", "no-key", "open-key"],
)
async def test_a_spoiled_file_is_told_and_left_alone(
    tmp_path: Path, spoil: object, why: str
) -> None:
    secrets = FileSecrets(tmp_path)
    await secrets.put("default", "wandb", b"hunter22")
    assert callable(spoil)
    spoil(tmp_path)
    before = (tmp_path / "secrets").read_bytes()
    with pytest.raises(SecretsUnreadable, match=why):
        await secrets.get("default", "wandb")
    with pytest.raises(SecretsUnreadable, match=why):
        await secrets.put("default", "other", b"another")
    assert (tmp_path / "secrets").read_bytes() == before
    assert not any(".new" in name for name in os.listdir(tmp_path))


async def test_secret_manager_keeps_one_version_with_labels(anyio_backend: str) -> None:
    from xmcloud.adapters.gcp.secrets import SecretManager

    async with secret_manager() as (address, service):
        secrets = SecretManager("p", address)
        for value in (b"first", b"second", b"third"):
            await secrets.put("vision", "hf-token", value)
        await secrets.close()
    (kept,) = service.kept.values()
    assert kept.secret.name == "projects/p/secrets/xmcloud-secret_vision_hf-token"
    assert dict(kept.secret.labels) == {
        "xmcloud-project": "vision",
        "xmcloud-secret": "hf-token",
    }
    assert kept.values == [b"", b"", b"third"]


async def test_a_service_that_is_away_is_unavailable(anyio_backend: str) -> None:
    from xmcloud.adapters.gcp.secrets import SecretManager

    async with secret_manager() as (address, service):
        secrets = SecretManager("p", address, deadline=0.2)
        service.failing = grpc.StatusCode.INTERNAL
        with pytest.raises(Unavailable, match="Secret Manager does not answer"):
            await secrets.put("default", "wandb", b"hunter22")
        await secrets.close()


_KEY = "projects/p/locations/{}/keyRings/r/cryptoKeys/k"


@pytest.mark.parametrize("location", ["", "europe-west4", "global"])
async def test_secret_manager_encrypts_with_a_key_of_yours_where_that_is(location: str) -> None:
    from google.cloud.secretmanager_v1 import Replication

    from xmcloud.adapters.gcp.secrets import SecretManager

    key = _KEY.format(location) if location else ""
    async with secret_manager() as (address, service):
        secrets = SecretManager("p", address, kms_key=key)
        await secrets.put("default", "wandb", b"hunter22")
        await secrets.close()
    own = {"customer_managed_encryption": {"kms_key_name": key}}
    wanted = {
        "": {"automatic": {}},
        "global": {"automatic": own},
        "europe-west4": {"user_managed": {"replicas": [{"location": "europe-west4", **own}]}},
    }
    (kept,) = service.kept.values()
    assert kept.secret.replication == Replication(wanted[location])
