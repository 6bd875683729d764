"""What keeps a job from being started, and where it is told."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

LOG = "output.log"
"""What a job writes, and the steps of its setup before, in the folder of its attempt."""


class SetupFailed(Exception):
    """A job could not be started; says which step failed and what to do."""


class StepFailed(SetupFailed):
    """A step of the setup ended with an exit code; `output` is the end of what it printed."""

    def __init__(self, name: str, program: str, code: int, output: str) -> None:
        super().__init__(f"Cannot {name}: {program} exited with code {code}.\n{output}")
        self.output = output


@dataclass(frozen=True, slots=True)
class Access:
    """The whole environment of a step that may see secrets, and what its output must not show."""

    environment: Mapping[str, str] = field(repr=False)
    secrets: Collection[str] = field(default=(), repr=False)


class PrivateStep(Protocol):
    """Runs a named step of the setup with its output in the job's log, without secrets.

    Raises `StepFailed` and `DiskFull`.
    """

    async def __call__(
        self, name: str, argv: Sequence[str], access: Access | None = None, /
    ) -> None: ...
