"""A worker that outlives the command that starts it, connected to any control plane."""

import sys
from collections.abc import Sequence

from xmcloud.local.processes import Processes, ProcessRecord, wait_until_ready
from xmcloud.worker.leftovers import only_one
from xmcloud.worker.settings import WorkerSettings
from xmcloud.xm_cloud.client import Client

_READY_SECONDS = 30.0
_GRACE_SECONDS = 5.0


def start_worker(settings: WorkerSettings, flags: Sequence[str]) -> ProcessRecord:
    """Start `xmcloud worker start` with these flags; returns when it is connected.

    Its log and its record are in the worker's folder. Raises NameTaken, NotStarted, ProcessDied,
    NotReady, Unavailable and Unauthorized; then nothing was left running.
    """
    with only_one(settings.folder):
        # No worker runs, although jobs of an earlier one may, which the record would count.
        (settings.folder / "processes.json").unlink(missing_ok=True)
    processes = Processes(settings.folder)
    with Client(settings.url, settings.identity().credentials) as client:
        before = _sessions(client, settings.name)
        argv = [sys.executable, "-P", "-m", "xmcloud.cli", "worker", "start", *flags]
        record = processes.start("worker", argv)
        try:
            wait_until_ready(
                record, lambda: bool(_sessions(client, settings.name) - before), _READY_SECONDS
            )
        except BaseException:
            processes.stop(_GRACE_SECONDS)
            raise
    return record


def _sessions(client: Client, name: str) -> set[str]:
    return {each.id for each in client.workers().sessions if each.worker == name}
