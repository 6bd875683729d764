"""How an attempt ended, in words that a person can act on."""

import signal
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json

from xmcloud.core.base import Json
from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.worker_protocol import RESULTS_LIMIT
from xmcloud.worker.news import Ending

_MESSAGE_LIMIT = 4000
_SHELL_SAYS_KILLED = 128 + signal.SIGKILL
OUT_OF_MEMORY = "out of memory"
"""How a note begins that tells of it."""

_SYSTEM_WAS_OUT_OF_MEMORY = (
    f"{OUT_OF_MEMORY}: this machine had none left, and the system ended what used much;"
    " ask for `memory`, so that the job gets a machine that has it"
)

_RESULTS: TypeAdapter[dict[str, Json]] = TypeAdapter(dict[str, Json])


class UnusableResults(Exception):
    """The file of results cannot be taken; says why."""


def ending(
    outcome: Outcome,
    code: ReasonCode,
    message: str,
    *,
    exit_code: int | None = None,
    results: dict[str, JsonValue] | None = None,
) -> Ending:
    # Names of files may hold bytes that are no text.
    message = message.encode(errors="replace").decode()[:_MESSAGE_LIMIT]
    reason = Reason(code=code, message=message, exit_code=exit_code)
    return Ending(outcome, reason, results or {})


def exited(
    code: int,
    last_lines: str,
    results: dict[str, JsonValue],
    note: str = "",
    *,
    out_of_memory: bool = False,
) -> Ending:
    """It ended by itself, or by a signal that the worker did not send.

    `out_of_memory`: meanwhile the system killed processes because its memory had run out.
    """
    if code == 0:
        return ending(
            Outcome.COMPLETED, ReasonCode.EXITED, "completed", exit_code=0, results=results
        )
    killed = code in (-signal.SIGKILL, _SHELL_SAYS_KILLED)
    if not note and killed and out_of_memory:
        note = _SYSTEM_WAS_OUT_OF_MEMORY
    how = f"killed by signal {signal_name(-code)}" if code < 0 else f"exited with code {code}"
    why = f": {note}" if note else _hint(-code)
    after = f"\n{last_lines}" if last_lines else ""
    usual = ReasonCode.SIGNALED if code < 0 else ReasonCode.EXITED
    reason = ReasonCode.OUT_OF_MEMORY if note.startswith(OUT_OF_MEMORY) else usual
    shown = 128 - code if code < 0 else code
    return ending(Outcome.FAILED, reason, f"{how}{why}{after}", exit_code=shown, results=results)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _hint(number: int) -> str:
    if number == signal.SIGKILL:
        return " (the system does that when memory runs out)"
    return ""


def read_results(path: Path) -> dict[str, JsonValue]:
    """What the process wrote as its results; nothing if it wrote none. Raises UnusableResults."""
    try:
        with path.open("rb") as file:
            written = file.read(RESULTS_LIMIT + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnusableResults(f"it cannot be read: {error.strerror}") from error
    if len(written) > RESULTS_LIMIT:
        raise UnusableResults(f"it has more than {RESULTS_LIMIT:,} bytes")
    try:
        results = from_json(written, allow_inf_nan=False)
    except ValueError as error:
        raise UnusableResults(f"it is not valid JSON: {error}") from error
    if not isinstance(results, dict):
        raise UnusableResults("it holds no JSON object")
    try:
        return _RESULTS.validate_python(results)
    except ValidationError as error:
        raise UnusableResults(error.errors()[0]["msg"]) from error
