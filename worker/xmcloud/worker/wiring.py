"""Chooses where the worker's permits come from, and where its spans go."""

import os

from xmcloud.adapters.otel import chosen_tracer
from xmcloud.core.ports import Consumer
from xmcloud.core.trace import Tracer
from xmcloud.worker.client import ApiClient
from xmcloud.worker.remote_queue import RemoteQueue
from xmcloud.worker.settings import WorkerSettings


def consumer(settings: WorkerSettings, client: ApiClient) -> Consumer:
    """Pub/Sub directly when the settings say so, else the queue behind the API."""
    if settings.queue == "api":
        return RemoteQueue(client)
    from xmcloud.adapters.gcp.pubsub import PubSubQueue

    return PubSubQueue(settings.project)


def tracer() -> Tracer:
    """Where the environment says."""
    return chosen_tracer(os.environ, "xmcloud-worker")
