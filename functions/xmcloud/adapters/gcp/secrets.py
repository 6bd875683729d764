"""Secrets in Secret Manager."""

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions

from xmcloud.adapters.gcp.failures import translated
from xmcloud.core.secrets import SecretMissing, secret_key

if TYPE_CHECKING:
    from google.cloud.secretmanager_v1 import SecretManagerServiceAsyncClient

_SERVICE = "Secret Manager"
PREFIX = "xmcloud-secret_"
"""Of the ids of secrets: what the control plane may touch, and nothing else."""


class SecretManager:
    """The `Secrets` port on Secret Manager.

    A secret has one version that is not destroyed. `kms_key`, by its name in Cloud KMS, encrypts
    it, and decides where it is kept. `endpoint`, as HOST:PORT, is a server that speaks without
    encryption; otherwise Google's own is asked.
    """

    def __init__(
        self, project: str, endpoint: str = "", deadline: float = 30.0, *, kms_key: str = ""
    ) -> None:
        self._project = project
        self._replication = _replication(kms_key)
        self._endpoint = endpoint
        self._client: SecretManagerServiceAsyncClient | None = None
        self._options: dict[str, Any] = {"timeout": deadline}

    async def put(self, project: str, name: str, value: bytes) -> None:
        with translated(_SERVICE):
            try:
                version = await self._add(project, name, value)
            except exceptions.NotFound:
                await self._create(project, name)
                version = await self._add(project, name, value)
            await self._destroy_before(project, name, version)

    async def get(self, project: str, name: str) -> bytes:
        latest = f"{self._name(project, name)}/versions/latest"
        try:
            with translated(_SERVICE):
                answer = await self._api().access_secret_version({"name": latest}, **self._options)
        except (exceptions.NotFound, exceptions.FailedPrecondition):  # or somebody destroyed it
            raise SecretMissing(project, name) from None
        data: bytes = answer.payload.data
        return data

    async def delete(self, project: str, name: str) -> None:
        request = {"name": self._name(project, name)}
        with translated(_SERVICE), suppress(exceptions.NotFound):
            await self._api().delete_secret(request, **self._options)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.transport.close()

    async def _add(self, project: str, name: str, value: bytes) -> int:
        """The number of the new version."""
        request = {"parent": self._name(project, name), "payload": {"data": value}}
        made = await self._api().add_secret_version(request, **self._options)
        return _number(made.name)

    async def _create(self, project: str, name: str) -> None:
        request = {
            "parent": f"projects/{self._project}",
            "secret_id": PREFIX + secret_key(project, name),
            "secret": {
                "replication": self._replication,
                "labels": {"xmcloud-project": project, "xmcloud-secret": name},
            },
        }
        with suppress(exceptions.AlreadyExists):
            await self._api().create_secret(request, **self._options)

    async def _destroy_before(self, project: str, name: str, version: int) -> None:
        """Who put another value meanwhile did the same; the newest one stays."""
        request = {"parent": self._name(project, name), "filter": "NOT state:DESTROYED"}
        api = self._api()
        async for old in await api.list_secret_versions(request, **self._options):
            if _number(old.name) < version:
                with suppress(exceptions.NotFound, exceptions.FailedPrecondition):
                    await api.destroy_secret_version({"name": old.name}, **self._options)

    def _name(self, project: str, name: str) -> str:
        return f"projects/{self._project}/secrets/{PREFIX}{secret_key(project, name)}"

    def _api(self) -> "SecretManagerServiceAsyncClient":
        if self._client is None:
            self._client = _connect(self._endpoint)
        return self._client


def _replication(kms_key: str) -> dict[str, Any]:
    """A key encrypts what is kept in its own location, `global` what is kept anywhere."""
    if not kms_key:
        return {"automatic": {}}
    own = {"customer_managed_encryption": {"kms_key_name": kms_key}}
    location = kms_key.split("/")[3]
    if location == "global":
        return {"automatic": own}
    return {"user_managed": {"replicas": [{"location": location, **own}]}}


def _number(version: str) -> int:
    return int(version.rpartition("/")[2])


def _connect(endpoint: str) -> "SecretManagerServiceAsyncClient":
    library = import_module("google.cloud.secretmanager_v1")
    if not endpoint:
        client: SecretManagerServiceAsyncClient = library.SecretManagerServiceAsyncClient()
        return client
    from grpc.aio import insecure_channel

    transports = import_module(
        "google.cloud.secretmanager_v1.services.secret_manager_service.transports"
    )
    transport = transports.SecretManagerServiceGrpcAsyncIOTransport(
        channel=insecure_channel(endpoint)
    )
    plain: SecretManagerServiceAsyncClient = library.SecretManagerServiceAsyncClient(
        transport=transport
    )
    return plain
