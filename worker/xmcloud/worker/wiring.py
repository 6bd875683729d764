"""Chooses where the worker's permits come from."""

from xmcloud.core.ports import Consumer
from xmcloud.worker.client import ApiClient
from xmcloud.worker.remote_queue import RemoteQueue
from xmcloud.worker.settings import WorkerSettings


def consumer(settings: WorkerSettings, client: ApiClient) -> Consumer:
    """Pub/Sub directly when the settings say so, else the queue behind the API."""
    if settings.queue == "api":
        return RemoteQueue(client)
    from xmcloud.adapters.gcp.pubsub import PubSubQueue

    return PubSubQueue(settings.project)
