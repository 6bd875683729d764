"""The process of the stand-ins for Vertex AI and Cloud Build on this machine."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from xmcloud.core.clock import SystemClock
from xmcloud.core.errors import XmcloudError
from xmcloud.core.ports import Blobs, Message, Queue
from xmcloud.core.topics import BUILD_EVENTS, PLATFORM_EVENTS
from xmcloud.local.standins.addresses import BUCKET, LOCATION, PROJECT, StandInPorts
from xmcloud.local.standins.cloud_build import serve_cloud_build
from xmcloud.local.standins.containers import local_runner
from xmcloud.local.standins.faults import Faults, serve_faults
from xmcloud.local.standins.mirror import Mirrored
from xmcloud.local.standins.vertex import serve_vertex


async def serve(home: Path, ports: StandInPorts) -> None:
    """Serve until a signal asks to end; what they run ends with them."""
    queue, blobs = _ports_of_the_control_plane(home)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    faults = {"vertex": Faults(), "build": Faults()}
    async with AsyncExitStack() as stack:
        runner = await stack.enter_async_context(local_runner())
        folder = _bucket_folder(home)
        if folder is None:
            folder = home / "gcs" / BUCKET
            runner = Mirrored(runner, blobs, BUCKET, folder)
        await stack.enter_async_context(
            serve_vertex(
                ports.vertex,
                PROJECT,
                [LOCATION],
                {BUCKET: folder},
                home / "stand-ins",
                _emitter(queue, PLATFORM_EVENTS),
                faults["vertex"],
                runner,
            )
        )
        await stack.enter_async_context(
            serve_cloud_build(
                ports.build,
                PROJECT,
                lambda bucket, key: blobs.get(key),
                lambda bucket, key, data: blobs.put(key, data),
                _emitter(queue, BUILD_EVENTS),
                faults=faults["build"],
            )
        )
        await stack.enter_async_context(serve_faults(ports.faults, faults))
        await ended.wait()
    await queue.close()
    await blobs.close()


def _emitter(queue: Queue, topic: str) -> Callable[[str], Awaitable[None]]:
    async def emit(body: str) -> None:
        await queue.publish(topic, [Message("", body)])

    return emit


def _ports_of_the_control_plane(home: Path) -> tuple[Queue, Blobs]:
    """Where it listens for events, and keeps archives and logs."""
    if os.environ.get("XMCLOUD_PROFILE") == "gcp":
        from xmcloud.adapters.gcp.pubsub import PubSubQueue
        from xmcloud.adapters.gcp.storage import GcsBlobs

        return PubSubQueue(PROJECT), GcsBlobs(BUCKET, PROJECT)
    from xmcloud.adapters.files.blobs import FileBlobs
    from xmcloud.adapters.sqlite.queue import SqliteQueue

    return SqliteQueue(home / "queue.db", SystemClock()), FileBlobs(home / "blobs")


def _bucket_folder(home: Path) -> Path | None:
    """Where the bucket is a folder of this machine, which jobs see below /gcs."""
    return None if os.environ.get("XMCLOUD_PROFILE") == "gcp" else home / "blobs"


def main() -> None:
    """`python -m xmcloud.local.standins.serve --home FOLDER --ports V,B,F`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--ports", required=True)
    options = parser.parse_args()
    ports = StandInPorts(*map(int, options.ports.split(",")))
    try:
        asyncio.run(serve(options.home, ports))
    except XmcloudError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
