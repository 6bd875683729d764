"""What a worker does with a job of an image, in a process that may be killed or be anybody's.

`python -m tests.podman.worker HOST FOLDER UID USER IMAGE COMMAND..`
"""

import asyncio
import os
import sys
from pathlib import Path

from tests.podman.engines import attempt_folder, claimed
from xmcloud.worker import container  # noqa: F401 - now, while all files can be read
from xmcloud.worker.containers import Containers


def main() -> None:
    host, place, uid, user, image, *command = sys.argv[1:]
    os.setgid(int(uid))
    os.setuid(int(uid))
    asyncio.run(work(Containers(host, "host", user=user), Path(place), image, command))  # type: ignore[arg-type]


async def work(containers: Containers, place: Path, image: str, command: list[str]) -> None:
    job, executable = claimed(*command, image=image)
    folder = attempt_folder(place)
    plan = await containers.plan(job, executable, folder)
    running = await containers.start(plan)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    await running.wait()
    await running.bury(1)
    outputs = sorted(folder.outputs.rglob("*"))
    sys.stdout.write(f"{ {file.name: file.read_text() for file in outputs if file.is_file()} }\n")
    await containers.delete(folder.path)
    await containers.delete(folder.checkpoint, image)
    containers.close()


if __name__ == "__main__":
    main()
