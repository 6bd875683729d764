"""What a script has told its reporter so far."""

from dataclasses import dataclass, field
from typing import Any

from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.specs import Argument
from xmcloud.runs.facts import Facts

_CODES = {"completed": ReasonCode.EXITED, "failed": ReasonCode.EXITED}


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome
    reason: Reason


@dataclass(slots=True)
class Story:
    """Messages in, the facts of the run out."""

    facts: Facts
    modules: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    ended: Ended | None = None
    looks: int = 0
    _parsed: list[Argument] | None = None
    _own: dict[str, Any] = field(default_factory=dict)

    def take(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "parsed":
                self._parsed = [Argument(name=n, value=v) for n, v in message["arguments"]]
            case "parameters":
                self._own = message["own"]
            case "imports":
                same = len(self.modules) == len(message["modules"])
                self.looks = self.looks + 1 if same else 0
                self.modules, self.files = message["modules"], message["files"]
            case "ended":
                self.ended = _ended(message)

    @property
    def settled(self) -> bool:
        """It is over, or seems to have imported what it needs and to know its parameters."""
        known = self._parsed is not None or bool(self._own)
        return self.ended is not None or self.looks >= (1 if known else 3)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """As parsers found them, else as they stood; then the script's own parameters."""
        words = self.facts.arguments
        parsed = [Argument(value=word) for word in words] if self._parsed is None else self._parsed
        return (*parsed, *(Argument(name=name, value=v) for name, v in self._own.items()))

    @property
    def own_parameters(self) -> list[str]:
        return list(self._own)


def _ended(message: dict[str, Any]) -> Ended:
    code = _CODES.get(message["outcome"], ReasonCode.SIGNALED)
    reason = Reason(code=code, message=message["message"], exit_code=message["exit_code"])
    return Ended(Outcome(message["outcome"]), reason)


def silent_end() -> Ended:
    """The process is gone and has not said why."""
    message = "the process ended without a word: it was killed, or left by os._exit"
    return Ended(Outcome.FAILED, Reason(code=ReasonCode.SIGNALED, message=message))
