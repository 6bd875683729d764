"""Container engines that a worker may find, and a worker that is killed or has few rights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker import DockerClient

from tests.support.builders import draft, spec
from tests.support.clock import START
from xmcloud.core import lifecycle
from xmcloud.core.models import Job
from xmcloud.core.specs import ContainerOptions, Image
from xmcloud.worker.attempt_folder import AttemptFolder


@dataclass(frozen=True)
class Engine:
    """One that runs, with a client of its own."""

    name: str
    host: str
    image: str
    client: DockerClient
    earlier: frozenset[str]
    """Containers that were there before the tests."""

    def containers(self) -> list[Any]:
        """Those of a test, running or not."""
        found = self.client.containers.list(all=True)
        return [container for container in found if container.id not in self.earlier]


def claimed(
    *command: str, image: str, fence: int = 1, resources: dict[str, float] | None = None
) -> tuple[Job, Image]:
    """A job of an image, under way for the first time or again."""
    executable = Image(image=image, command=command, options=ContainerOptions())
    job = draft(spec(resources=resources).evolve(executable=executable))
    queued = lifecycle.enqueued(job.evolve(fence=fence - 1), "default", 1, "ann", START)
    job = lifecycle.claimed(queued, "w", "s" * 16, START)
    return job, executable


def attempt_folder(place: Path, fence: int = 1) -> AttemptFolder:
    """Made, with a line of the setup in its log."""
    folder = AttemptFolder(place / f"attempt-{fence}", place / "checkpoint")
    folder.make()
    folder.log.write_bytes(b"setup\n")
    return folder
