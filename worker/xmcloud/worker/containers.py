"""Containers of jobs on this machine; its engine is asked only when there is a job for it."""

import logging
import os
import shutil
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xmcloud.core.models import Job
from xmcloud.core.specs import Image
from xmcloud.worker import engine
from xmcloud.worker.aside import aside
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container_files import Janitor
from xmcloud.worker.container_plan import INSIDE, ContainerPlan, Site, container_plan, labels
from xmcloud.worker.identity import peers_of
from xmcloud.worker.running import Vanished
from xmcloud.worker.setup import SetupFailed

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container as EngineContainer

    from xmcloud.worker.container import Container

logger = logging.getLogger("xmcloud.worker")

RECORD = "container"
"""A file in the folder of an attempt that may have a container."""


class ContainerRecord(BaseModel):
    """What is known of a container before there is one."""

    model_config = ConfigDict(frozen=True)

    image: str
    offset: int = Field(ge=0)
    """Where its output begins in the log of the attempt."""


class Containers:
    """One connection to the engine, whose calls are made aside."""

    def __init__(
        self,
        host: str = "",
        network: str = "",
        gcs: Path | None = None,
        user: Literal["", "worker", "image"] = "",
    ) -> None:
        """'': the engine that DOCKER_HOST tells or this machine has; the network it has."""
        self._host, self._network, self._gcs, self._user = host, network, gcs, user
        self._one_by_one = threading.Lock()
        self._client: DockerClient | None = None
        self._kind: engine.Kind | None = None
        self._knows_user: dict[str, bool] = {}

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    async def plan(
        self, job: Job, image: Image, folder: AttemptFolder, gpus: Sequence[str] = ()
    ) -> ContainerPlan:
        """With the image at hand, and GPUs by UUID. Raises `SetupFailed` and `DiskFull`."""
        given_up = threading.Event()
        try:
            return await aside(partial(self._plan, job, image, folder, gpus, given_up))
        finally:
            given_up.set()

    async def start(self, plan: ContainerPlan) -> "Container":
        """Raises `SetupFailed` and `DiskFull`."""
        container, record = await aside(partial(self._start, plan))
        return self._followed(container, plan.folder, record)

    async def adopt(self, job_id: str, fence: int, folder: AttemptFolder) -> "Container | None":
        """What an earlier run of the worker started, over or not; None when it started none.

        Its output goes on where the log of the attempt ends. Raises `Vanished`.
        """
        record = _record(folder.path)
        if record is None:
            return None
        try:
            container = await aside(partial(self._find, job_id, fence))
        except SetupFailed as error:
            raise Vanished(str(error)) from error
        return self._followed(container, folder, record) if container else None

    async def remove(self, attempts: Collection[tuple[str, int]]) -> int:
        """Remove the containers of those attempts; how many there were. Raises `SetupFailed`."""
        return await aside(partial(self._remove, attempts))

    async def delete(self, folder: Path, image: str = "") -> None:
        """A folder that a container of the image wrote to; '': what the attempt's record says.

        Logs what cannot be removed.
        """
        await aside(partial(self._delete, folder, image))

    def _engine(self) -> "DockerClient":
        with self._one_by_one:
            if self._client is None:
                self._client = engine.connect(self._host)
            return self._client

    def _engine_kind(self) -> engine.Kind:
        if self._kind is None:
            self._kind = engine.kind_of(self._engine())
        return self._kind

    def _followed(
        self, container: "EngineContainer", folder: AttemptFolder, record: ContainerRecord
    ) -> "Container":
        from xmcloud.worker.container import Container

        return Container(
            container,
            folder,
            record.offset,
            self._janitor(record.image),
            tells_out_of_memory=self._engine_kind().tells_out_of_memory,
        )

    def _janitor(self, image: str) -> Janitor:
        return Janitor(self._engine(), image, "0:0" if self._engine_kind().own_users else _me())

    def _plan(
        self,
        job: Job,
        image: Image,
        folder: AttemptFolder,
        gpus: Sequence[str],
        given_up: threading.Event,
    ) -> ContainerPlan:
        client = self._engine()
        for volume in map(Path, image.options.volumes):
            if volume.is_absolute():
                _check(volume)
        with folder.log.open("a", encoding="utf-8") as log:
            engine.pull_if_absent(client, image.image, log, given_up)
            with engine.explained("look at the container engine"):
                found = client.images.get(image.image)
            site = self._site(job, str(found.id), found.attrs["Config"])
            plan = container_plan(job, image, folder, site, engine.facts_of(found), gpus)
            log.writelines(f"xmcloud: {note}\n" for note in plan.notes)
        return plan

    def _site(self, job: Job, image: str, config: Mapping[str, object]) -> Site:
        client, kind = self._engine(), self._engine_kind()
        with engine.explained("look at the container engine"):
            network = self._network or engine.network_of(client)
        hosts = {peer.host for peer in peers_of(job).values()}
        special = os.geteuid() == 0 or kind.own_users
        as_worker = (self._user or ("image" if special else "worker")) == "worker"
        return Site(
            network,
            self._gcs,
            {host: engine.address(host) for host in hosts},
            kind.podman,
            _me() if as_worker else "",
            INSIDE if as_worker and not self._has_home(image, config) else "",
        )

    def _has_home(self, image: str, config: Mapping[str, object]) -> bool:
        """Whether the worker's user has one in the image."""
        variables = config.get("Env")
        if isinstance(variables, list) and any(each.startswith("HOME=") for each in variables):
            return True
        if image not in self._knows_user:
            self._knows_user[image] = engine.has_user(self._engine(), image, os.geteuid())
        return self._knows_user[image]

    def _start(self, plan: ContainerPlan) -> tuple["EngineContainer", ContainerRecord]:
        client = self._engine()
        if "user" not in plan.options:
            for place in (plan.folder.shared, plan.folder.outputs, plan.folder.checkpoint):
                place.chmod(0o777)  # whoever the image runs as
        record = ContainerRecord(image=plan.options["image"], offset=plan.folder.log.stat().st_size)
        (plan.folder.path / RECORD).write_text(record.model_dump_json(), encoding="utf-8")
        with engine.explained(f"start container {plan.name}"):
            engine.make_room(client, plan)
            if "network" in plan.options:
                with self._one_by_one:
                    engine.ensure_network(client, plan.network)
            container = client.containers.create(**plan.options)
            try:
                container.start()
                container.reload()
            except BaseException:
                container.remove(v=True, force=True)
                raise
        return container, record

    def _find(self, job_id: str, fence: int) -> "EngineContainer | None":
        """The one that was started; one that was only made is removed."""
        self._engine_kind()  # what it takes to follow one, asked aside
        with engine.explained("look for a container"):
            for container in self._of(job_id, fence):
                if container.status != "created":
                    return container
                container.remove(v=True, force=True)
        return None

    def _of(self, job_id: str, fence: int) -> "list[EngineContainer]":
        wanted = [f"{name}={value}" for name, value in labels(job_id, fence).items()]
        return self._engine().containers.list(all=True, filters={"label": wanted})

    def _remove(self, attempts: Collection[tuple[str, int]]) -> int:
        count = 0
        with engine.explained("remove containers"):
            for attempt in attempts:
                for container in self._of(*attempt):
                    container.remove(v=True, force=True)
                    count += 1
        return count

    def _delete(self, folder: Path, image: str) -> None:
        record = _record(folder)
        image = image or (record.image if record else "")
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        try:
            self._janitor(image).delete(folder)
        except SetupFailed as error:
            logger.warning("not all of %s could be removed: %s", folder, error)


def _record(folder: Path) -> ContainerRecord | None:
    """None where no container was started, or the worker ended while it wrote that one would be."""
    try:
        return ContainerRecord.model_validate_json((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _check(volume: Path) -> None:
    """Podman would make what is not there. Raises `SetupFailed`."""
    try:
        volume.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise SetupFailed(
            f"The volume {volume} is not on this machine. Make it, or name a pool of machines that"
            " have it."
        ) from None
    except PermissionError:
        return  # the engine may see more than the worker


def _me() -> str:
    return f"{os.geteuid()}:{os.getegid()}"
