"""Runs the pods of a cluster in memory as processes of this machine."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster import JOBS, Nodes, expanded


class Kubelet:
    """Controllers and one machine: pods run as soon as their Jobs may."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self.hold = False
        self.broken: set[str] = set()
        self._nodes = nodes
        self._folder = folder
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def work(self) -> None:
        """Until it is cancelled; whenever the API server was called."""
        try:
            while True:
                await self._nodes.emulator.changed.wait()
                self._nodes.emulator.changed.clear()
                for name, job in self._nodes.all(JOBS).items():
                    await self._see_to(name, job)
        finally:
            for name in self._processes:
                self._kill(name, signal.SIGKILL)
            await asyncio.gather(*self._tasks)

    def log(self, label: str, job: int) -> Path:
        return self._folder / f"{label}-{job}.log"

    def take_machine(self, job: str) -> None:
        pod = next(name for name in self._nodes.all("v1/pods") if name.startswith(job))
        self._nodes.disrupt(pod, "PreemptionByScheduler")
        self._kill(job, signal.SIGKILL)

    async def _see_to(self, name: str, job: dict[str, Any]) -> None:
        if job["spec"].get("suspend") or job.get("status", {}).get("conditions"):
            return
        if job["metadata"]["labels"]["xmcloud-label"] in self.broken:
            self._nodes.fail(name, "BackoffLimitExceeded", "lost")
            self._kill(name, signal.SIGKILL)
        elif "activeDeadlineSeconds" in job["spec"]:
            self._kill(name, signal.SIGTERM)
            if name not in self._processes:
                self._nodes.pass_deadlines()
        elif name not in self._processes and not self.hold:
            await self._start(name, job)

    async def _start(self, name: str, job: dict[str, Any]) -> None:
        [container] = job["spec"]["template"]["spec"]["containers"]
        variables: dict[str, str] = {}
        for each in container["env"]:
            variables[each["name"]] = expanded(each["value"], variables)
        argv = [
            expanded(each, variables) for each in container["command"] + container.get("args", [])
        ]
        pod = self._nodes.run(name)
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdout=output,
                stderr=output,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        self._processes[name] = process
        task = asyncio.create_task(self._wait(name, pod, log))
        self._tasks.add(task)

    async def _wait(self, name: str, pod: str, log: Path) -> None:
        code = await self._processes[name].wait()
        job = self._nodes.all(JOBS)[name]
        if job.get("status", {}).get("conditions"):
            return
        if "activeDeadlineSeconds" in job["spec"]:
            self._nodes.pass_deadlines()
        else:
            self._nodes.exit(pod, code, message=_tail(log))

    def _kill(self, name: str, number: signal.Signals) -> None:
        if (process := self._processes.get(name)) is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)


def _tail(log: Path) -> str:
    return log.read_text()[-2048:]
