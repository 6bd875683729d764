"""Containers of jobs on this machine; its engine is asked only when there is a job for it."""

import threading
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmcloud.core.models import Job
from xmcloud.core.specs import Image
from xmcloud.worker import engine
from xmcloud.worker.aside import aside
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container_plan import ContainerPlan, Site, container_plan, labels
from xmcloud.worker.identity import peers_of

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container as EngineContainer
    from docker.types.daemon import CancellableStream

    from xmcloud.worker.container import Container

RECORD = "container"
"""A file in the folder of an attempt that may have a container."""


class Containers:
    """One connection to the engine, whose calls are made aside."""

    def __init__(self, host: str = "", network: str = "", gcs: Path | None = None) -> None:
        """'': the engine that DOCKER_HOST tells or this machine has; the network it has."""
        self._host, self._network, self._gcs = host, network, gcs
        self._one_by_one = threading.Lock()
        self._client: DockerClient | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    async def plan(self, job: Job, image: Image, folder: AttemptFolder) -> ContainerPlan:
        """With the image at hand. Raises `SetupFailed` and `DiskFull`."""
        given_up = threading.Event()
        try:
            return await aside(partial(self._plan, job, image, folder, given_up))
        finally:
            given_up.set()

    async def start(self, plan: ContainerPlan) -> "Container":
        """Raises `SetupFailed` and `DiskFull`."""
        from xmcloud.worker.container import Container

        container, output = await aside(partial(self._start, plan))
        memory = plan.options.get("mem_limit")
        return Container(container, output, plan.folder.log, memory)

    async def remove(self, attempts: Collection[tuple[str, int]]) -> int:
        """Remove the containers of those attempts; how many there were. Raises `SetupFailed`."""
        return await aside(partial(self._remove, attempts))

    def _engine(self) -> "DockerClient":
        with self._one_by_one:
            if self._client is None:
                self._client = engine.connect(self._host)
            return self._client

    def _plan(
        self, job: Job, image: Image, folder: AttemptFolder, given_up: threading.Event
    ) -> ContainerPlan:
        client = self._engine()
        with folder.log.open("a", encoding="utf-8") as log:
            engine.pull_if_absent(client, image.image, log, given_up)
            with engine.explained("look at the container engine"):
                entrypoint = client.images.get(image.image).attrs["Config"].get("Entrypoint")
                network = self._network or engine.network_of(client)
            hosts = {peer.host for peer in peers_of(job).values()}
            site = Site(network, self._gcs, {host: engine.address(host) for host in hosts})
            plan = container_plan(job, image, folder, site, entrypoint or ())
            log.writelines(f"xmcloud: {note}\n" for note in plan.notes)
        return plan

    def _start(self, plan: ContainerPlan) -> "tuple[EngineContainer, CancellableStream[bytes]]":
        client = self._engine()
        for place in (plan.folder.shared, plan.folder.outputs, plan.folder.checkpoint):
            place.chmod(0o777)  # whoever the image runs as
        (plan.folder.path / RECORD).touch()
        with engine.explained(f"start container {plan.name}"):
            engine.make_room(client, plan)
            if "network" in plan.options:
                with self._one_by_one:
                    engine.ensure_network(client, plan.network)
            container = client.containers.create(**plan.options)
            try:
                output = container.attach(stream=True)
                container.start()
                container.reload()
            except BaseException:
                container.remove(v=True, force=True)
                raise
        return container, output

    def _remove(self, attempts: Collection[tuple[str, int]]) -> int:
        client = self._engine()
        count = 0
        with engine.explained("remove containers"):
            for job_id, fence in attempts:
                wanted = [f"{name}={value}" for name, value in labels(job_id, fence).items()]
                for container in client.containers.list(all=True, filters={"label": wanted}):
                    container.remove(v=True, force=True)
                    count += 1
        return count
