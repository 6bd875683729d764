"""Examples that run as people run them, all at once, on one stack with stand-ins for the cloud."""

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.stack import Stack
from xmcloud.core.models import Job

EXAMPLES = Path(__file__).parents[2] / "examples"
DEADLINE = 240.0
"""Seconds; ends a test that would fail, delays none that passes."""

_EXPERIMENT = re.compile(r"experiment (\w+) has (\d+) new unit")


class Launch:
    """A launch script that runs in a process of its own."""

    def __init__(self, stack: Stack, script: Path, flags: Sequence[str], log: Path) -> None:
        self._stack, self._log = stack, log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                stack.argv("launch", str(script), "--", *flags),
                env=stack.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def ended(self) -> str:
        """What it said, once it has ended well."""
        assert self._process.wait(DEADLINE) == 0, self.said
        return self.said

    @property
    def said(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE)

    def units(self) -> list[list[Job]]:
        """The jobs of each unit in order, once the script and all of them have ended."""
        found = _EXPERIMENT.search(self.ended())
        assert found is not None, self.said
        experiment = self._stack.client.experiment(found[1]).experiment.id
        units: dict[int, list[Job]] = {}
        for job in jobs_ended(self._stack, experiment):
            units.setdefault(job.unit, []).append(job)
        return [sorted(units[number], key=in_group) for number in sorted(units)]

    def jobs(self) -> list[Job]:
        """As `units`, of an example whose units have one job each."""
        units = self.units()
        assert [len(unit) for unit in units] == [1] * len(units)
        return [unit[0] for unit in units]


def jobs_ended(stack: Stack, experiment: str) -> list[Job]:
    deadline = time.monotonic() + DEADLINE
    changes = stack.client.changes(experiment)
    jobs = {job.id: job for job in changes.jobs}
    while not all(job.state.terminal for job in jobs.values()):
        assert time.monotonic() < deadline, [(j.unit, j.name, j.state) for j in jobs.values()]
        changes = stack.client.changes(experiment, changes.cursor, 20)
        jobs |= {job.id: job for job in changes.jobs}
    return list(jobs.values())


def in_group(job: Job) -> int:
    return [member.id for member in job.group].index(job.id) if job.group else 0


def arguments(job: Job) -> dict[str, Any]:
    """By name."""
    return {str(argument.name): argument.value for argument in job.spec.arguments}
