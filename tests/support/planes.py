"""Whole control planes on a manual clock, over each set of adapters."""

import secrets
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tests.support.clock import ManualClock
from tests.support.recording import RecordedQueue, RecordedStore, Recording
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.ports import Blobs, Queue, Store

LEASE = timedelta(seconds=30)
HEARTBEAT = timedelta(seconds=10)


@dataclass
class Rig:
    """A control plane, and what a test does with it.

    `costs` counts documents and messages as the adapters report them ("read", "write",
    "publish", ...); `store` is the bare one, for looking without leaving a trace.
    """

    plane: ControlPlane
    clock: ManualClock
    recording: Recording
    store: Store
    costs: Counter[str] = field(default_factory=Counter)

    async def close(self) -> None:
        await self.plane.store.close()
        await self.plane.queue.close()


def rig(
    store: Store, queue: Queue, blobs: Blobs, clock: ManualClock, costs: Counter[str] | None = None
) -> Rig:
    recording = Recording()
    plane = ControlPlane(
        store=RecordedStore(store, recording),
        queue=RecordedQueue(queue, recording),
        blobs=blobs,
        clock=clock,
        lease=LEASE,
        heartbeat=HEARTBEAT,
    )
    return Rig(plane, clock, recording, store, Counter() if costs is None else costs)


def sqlite_rig(folder: Path, clock: ManualClock, queue: Queue | None = None) -> Rig:
    """Over SQLite and files in `folder`, which exists; with another queue if one is given."""
    costs: Counter[str] = Counter()

    def observe(kind: str, count: int) -> None:
        costs[kind] += count

    return rig(
        SqliteStore(folder / "store.db", observe),
        queue or SqliteQueue(folder / "queue.db", clock, observe),
        FileBlobs(folder / "blobs"),
        clock,
        costs,
    )


def emulated_rig(project: str, bucket: str, clock: ManualClock) -> Rig:
    """Over the emulators of Firestore, Pub/Sub and Cloud Storage. Their own time is real."""
    from xmcloud.adapters.gcp.firestore import FirestoreStore
    from xmcloud.adapters.gcp.pubsub import PubSubQueue
    from xmcloud.adapters.gcp.storage import GcsBlobs

    return rig(FirestoreStore(project), PubSubQueue(project), GcsBlobs(bucket), clock)


def make_bucket(project: str) -> str:
    """A new bucket of the Cloud Storage emulator."""
    from google.cloud import storage

    bucket = f"blobs-{secrets.token_hex(8)}"
    client = storage.Client(project=project)
    client.create_bucket(bucket)
    client.close()
    return bucket
