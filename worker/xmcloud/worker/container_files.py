"""Files that a container wrote as another user: the worker makes them its own, or removes them.

What the worker may not do itself is done in a short container of an image that is at hand.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient

_THERE = "/xmcloud"
_SECONDS = 300
_NAMED = 5

logger = logging.getLogger("xmcloud.worker")


@dataclass(frozen=True, slots=True)
class Janitor:
    """Acts as the root user of containers of one image."""

    client: "DockerClient"
    image: str
    owner: str
    """The worker as containers name it, UID:GID."""

    def take_over(self, folder: Path) -> None:
        """Have all that is in a folder belong to the worker; logs what does not."""
        if os.geteuid() == 0 or not any(_foreign(folder)):
            return
        mine = f"chown -hR {self.owner} {_THERE} && chmod -R u+rwX {_THERE}"
        trouble = self._run(mine, folder)
        if left := list(islice(_foreign(folder), _NAMED)):
            logger.warning(
                "files that a container wrote stay those of another user (%s): %s",
                trouble or "it did not help",
                ", ".join(map(str, left)),
            )

    def delete(self, folder: Path) -> None:
        """A folder and all that is in it; logs what stays."""
        all_in_it = f"cd {_THERE} && rm -rf -- * .[!.]* ..?*"
        trouble = self._run(all_in_it, folder)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            left = islice(folder.rglob("*"), _NAMED)
            logger.warning(
                "not all of %s could be removed (%s): %s",
                folder,
                trouble or "it did not help",
                ", ".join(map(str, left)),
            )

    def _run(self, script: str, folder: Path) -> str:
        """What went wrong; '' when nothing did."""
        from docker.errors import DockerException, NotFound
        from docker.types import Mount

        try:
            container = self.client.containers.create(
                self.image,
                entrypoint=["/bin/sh", "-c"],
                command=[script],
                user="0:0",
                network_mode="none",
                mounts=[Mount(_THERE, str(folder), type="bind")],
                environment={"NVIDIA_VISIBLE_DEVICES": "void"},
                use_config_proxy=False,
            )
            try:
                container.start()
                code = container.wait(timeout=_SECONDS)["StatusCode"]
                return f"`{script}` exited with code {code}" if code else ""
            finally:
                with suppress(NotFound):
                    container.remove(v=True, force=True)
        except (DockerException, OSError) as error:
            return f"image {self.image} does not run `/bin/sh`: {error}"


def _foreign(folder: Path) -> Iterator[Path]:
    """What belongs to another user, or cannot be looked into."""
    mine, hidden = os.geteuid(), list[OSError]()
    for place, folders, files in os.walk(folder, onerror=hidden.append):
        for name in ("", *folders, *files):
            path = Path(place, name)
            with suppress(FileNotFoundError):
                if path.lstat().st_uid != mine:
                    yield path
    yield from (Path(error.filename) for error in hidden)
