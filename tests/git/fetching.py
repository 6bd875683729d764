"""A worker process that checks one commit out, and prints where.

Run with: FOLDER REPOSITORY COMMIT. It starts when a line comes in.
"""

import asyncio
import os
import sys
from pathlib import Path

from tests.git.conftest import Machine
from xmcloud.worker.process import Launcher


async def main(folder: str, repository: str, commit: str) -> None:
    launcher = Launcher(Path(folder) / f"worker-{os.getpid()}")
    machine = Machine(Path(folder), launcher, dict(os.environ))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(f"{await machine.check_out(repository, commit)}\n")
    await launcher.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
