"""What may go wrong at a service in the cloud, on demand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from xmcloud.core.errors import Unavailable
from xmcloud.core.platforms import PlatformRefused, QuotaExceeded


async def _nothing(call: str) -> None:
    """Steps in nowhere."""


@dataclass
class Mishaps:
    """How many of the next submissions fail in each way; while `silent`, every call does.

    `before` is awaited ahead of each call with its name, and may raise or do something else
    meanwhile.
    """

    quota: int = 0
    refused: int = 0
    lost_requests: int = 0
    lost_answers: int = 0
    silent: bool = False
    before: Callable[[str], Awaitable[None]] = _nothing

    async def call(self, name: str) -> None:
        await self.before(name)
        if self.silent:
            raise Unavailable("The service does not answer.")

    def before_submission(self) -> None:
        """Nothing was made yet."""
        if self._due("quota"):
            raise QuotaExceeded("Quota exceeded for custom_model_training_nvidia_t4_gpus.")
        if self._due("refused"):
            raise PlatformRefused("The machine type is not known.", "Choose another one.")
        if self._due("lost_requests"):
            raise Unavailable("The connection broke.")

    def after_submission(self) -> None:
        """It was made."""
        if self._due("lost_answers"):
            raise Unavailable("The connection broke.")

    def _due(self, name: str) -> bool:
        left: int = getattr(self, name)
        if left:
            setattr(self, name, left - 1)
        return left > 0
