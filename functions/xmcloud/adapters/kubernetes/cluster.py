"""The few calls to an API server that running jobs takes; objects are plain JSON."""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xmcloud.adapters.kubernetes.connections import Connection
from xmcloud.adapters.kubernetes.objects import LABEL

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Json = Mapping[str, Any]


class Cluster:
    """Blocks while it waits for an answer, for up to `deadline` seconds; safe among threads.

    All methods raise the client's own exceptions.
    """

    def __init__(self, connection: Connection, deadline: float) -> None:
        self._connection = connection
        self._raw: dict[str, Any] = {"_preload_content": False, "_request_timeout": deadline}
        self._opening = threading.Lock()
        self._opened: Any = None

    def create_job(self, namespace: str, manifest: Json) -> tuple[Json, bool]:
        """The Job, and whether it was made just now and not before."""
        from kubernetes.client import ApiException, BatchV1Api, V1Job

        api = BatchV1Api(self._client())
        body = V1Job.model_validate(manifest)
        try:
            made = api.create_namespaced_job(namespace, body, **self._raw)
        except ApiException as error:
            if error.status != 409:
                raise
            name = manifest["metadata"]["name"]
            return _json(api.read_namespaced_job(name, namespace, **self._raw)), False
        return _json(made), True

    def create_service(self, namespace: str, manifest: Json) -> None:
        """Makes it unless it is there."""
        from kubernetes.client import ApiException, CoreV1Api, V1Service

        api = CoreV1Api(self._client())
        try:
            api.create_namespaced_service(
                namespace, V1Service.model_validate(manifest), **self._raw
            )
        except ApiException as error:
            if error.status != 409:
                raise

    def jobs(self, namespace: str, label: str) -> list[Json]:
        from kubernetes.client import BatchV1Api

        api = BatchV1Api(self._client())
        selector = f"{LABEL}={label}"
        return _items(api.list_namespaced_job(namespace, label_selector=selector, **self._raw))

    def pods(self, namespace: str, label: str) -> list[Json]:
        from kubernetes.client import CoreV1Api

        api = CoreV1Api(self._client())
        selector = f"{LABEL}={label}"
        return _items(api.list_namespaced_pod(namespace, label_selector=selector, **self._raw))

    def warnings(self, namespace: str, job: str) -> list[str]:
        """What the cluster says of a Job whose pods it cannot make, the newest last."""
        from kubernetes.client import CoreV1Api

        api = CoreV1Api(self._client())
        selector = f"involvedObject.kind=Job,involvedObject.name={job},type=Warning"
        found = api.list_namespaced_event(namespace, field_selector=selector, **self._raw)
        events = sorted(_items(found), key=lambda event: event.get("lastTimestamp") or "")
        return [event.get("message", "") for event in events]

    def patch_job(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        from kubernetes.client import BatchV1Api

        BatchV1Api(self._client()).patch_namespaced_job(name, namespace, patch, **self._raw)

    def delete_job(self, namespace: str, name: str) -> None:
        """With its pods, and with its Service once no other Job owns that; of one that is not
        there, nothing."""
        from kubernetes.client import BatchV1Api
        from kubernetes.client.exceptions import NotFoundException

        with suppress(NotFoundException):
            BatchV1Api(self._client()).delete_namespaced_job(
                name, namespace, propagation_policy="Background", **self._raw
            )

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _client(self) -> "ApiClient":
        from kubernetes.client import ApiClient

        with self._opening:
            if self._opened is None:
                configuration = self._connection.configuration()
                configuration.retries = 1
                self._opened = ApiClient(configuration)
            client: ApiClient = self._opened
            return client


def _json(response: Any) -> Json:
    parsed: Json = json.loads(response.data)
    return parsed


def _items(response: Any) -> list[Json]:
    items: list[Json] = _json(response)["items"]
    return items
