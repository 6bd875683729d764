"""What runs for an attempt, whether processes or a container."""

from typing import Protocol


class Running(Protocol):
    """Something that was started and will end."""

    @property
    def note(self) -> str:
        """What the exit code does not say about the end; '' when there is nothing."""

    @property
    def out_of_memory(self) -> bool:
        """Once it ended: whether that was why."""

    async def wait(self) -> int:
        """The exit code, or minus the number of the signal that ended it. Raises `Vanished`."""

    async def end(self, grace: float) -> None:
        """Ask it to end, and kill what is left after `grace` seconds; again, to be quicker."""

    async def bury(self, grace: float) -> None:
        """After it ended: remove what it left behind, running things within `grace` seconds."""


class Vanished(Exception):
    """Nobody can tell any more whether it runs."""
