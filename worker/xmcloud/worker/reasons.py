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


def exited(code: int, last_lines: str, results: dict[str, JsonValue], note: str = "") -> Ending:
    """It ended by itself, or by a signal that the worker did not send."""
    if code == 0:
        return ending(
            Outcome.COMPLETED, ReasonCode.EXITED, "completed", exit_code=0, results=results
        )
    after = f"\n{last_lines}" if last_lines else ""
    if code < 0:
        why = f": {note}" if note else _hint(-code)
        message = f"killed by signal {signal_name(-code)}{why}{after}"
        return ending(
            Outcome.FAILED, ReasonCode.SIGNALED, message, exit_code=128 - code, results=results
        )
    why = f": {note}" if note else ""
    message = f"exited with code {code}{why}{after}"
    return ending(Outcome.FAILED, ReasonCode.EXITED, message, exit_code=code, results=results)


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
