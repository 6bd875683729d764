"""Log lines: plain for people, or JSON as Cloud Logging takes it, both with their trace."""

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, cast

from xmcloud.core import trace
from xmcloud.core.errors import InvalidInput
from xmcloud.core.trace import Trace
from xmcloud.core.version import VERSION

VARIABLE = "XMCLOUD_LOG"
_ON_CLOUD_RUN = "K_SERVICE"
_SERVERS = ("uvicorn", "uvicorn.error", "gunicorn.error", "functions_framework")
_ACCESS = ("uvicorn.access", "gunicorn.access")
"""They write raw paths with their queries; the request's own line tells more, and less."""

_REPORTED = "type.googleapis.com/google.devtools.clouderrorreporting.v1beta1.ReportedErrorEvent"
_STACK = "Traceback (most recent call last)"

Form = Literal["", "text", "json"]
_ours: list[logging.Handler] = []


def about(of: Trace | str | None = None, **fields: Any) -> dict[str, Any]:
    """What a line carries beside its message, as `extra` of a logger's method.

    `of` is the trace that it belongs to, where that is not the current one.
    """
    parsed = Trace.parse(of) if isinstance(of, str) else of
    return {"xmcloud_trace": parsed, "xmcloud_fields": fields}


def _trace_of(record: logging.LogRecord) -> Trace | None:
    return getattr(record, "xmcloud_trace", None) or trace.current()


class TextFormatter(logging.Formatter):
    """One line of text, its trace last."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        line = super().formatMessage(record)
        of = _trace_of(record)
        return f"{line} trace={of.trace_id}" if of else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, in the structure that Cloud Logging and Error Reporting know."""

    def __init__(self, project: str = "", service: str = "") -> None:
        super().__init__()
        self._project, self._service = project, service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "severity": record.levelname,
            "message": record.getMessage(),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "logger": record.name,
            **self._traced(_trace_of(record)),
            **getattr(record, "xmcloud_fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["stack_trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        stack = "stack_trace" in line or _STACK in line["message"]
        if stack and record.levelno >= logging.ERROR:
            line["@type"] = _REPORTED
            line["serviceContext"] = {"service": self._service, "version": VERSION}
        return json.dumps(line, ensure_ascii=False, default=str)

    def _traced(self, of: Trace | None) -> dict[str, Any]:
        if of is None:
            return {}
        cloud = {"logging.googleapis.com/trace": f"projects/{self._project}/traces/{of.trace_id}"}
        return {
            "trace": of.trace_id,
            **(cloud if self._project else {}),
            "logging.googleapis.com/spanId": of.span_id,
            "logging.googleapis.com/trace_sampled": of.sampled,
        }


def form(environment: Mapping[str, str], otherwise: Form = "") -> Form:
    """XMCLOUD_LOG, else JSON on Google Cloud, else as the program prefers.

    Raises `InvalidInput`.
    """
    asked = environment.get(VARIABLE, "")
    if asked not in ("", "text", "json"):
        raise InvalidInput(VARIABLE, asked, "json or text")
    return cast("Form", asked) or ("json" if _ON_CLOUD_RUN in environment else otherwise)


def set_up(environment: Mapping[str, str], service: str, otherwise: Form = "") -> None:
    """Has this process log in that form: JSON on stdout, text on stderr; '' changes nothing.

    Raises `InvalidInput`.
    """
    chosen = form(environment, otherwise)
    if not chosen:
        return
    if chosen == "json":
        project = environment.get("GOOGLE_CLOUD_PROJECT", "")
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(JsonFormatter(project, environment.get(_ON_CLOUD_RUN) or service))
        sys.excepthook = _uncaught
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(TextFormatter())
    logging.getLogger().handlers[:] = [handler]
    _ours[:] = [handler]
    logging.getLogger("xmcloud").setLevel(logging.DEBUG if chosen == "json" else logging.INFO)
    take_over()


def take_over() -> None:
    """Has the web servers log as the rest of the process does, if `set_up` chose a form.

    They choose handlers themselves, after the application was made.
    """
    if not _ours:
        return
    for name in _SERVERS:
        server = logging.getLogger(name)
        server.handlers.clear()
        server.propagate = True
    for name in _ACCESS:
        logging.getLogger(name).disabled = True


def _uncaught(kind: type[BaseException], error: BaseException, stack: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, stack)
        return
    logging.getLogger("xmcloud").critical("%s", error, exc_info=(kind, error, stack))
