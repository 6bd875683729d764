"""Lines for people and for Cloud Logging."""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from xmcloud.core import trace
from xmcloud.core.errors import InvalidInput
from xmcloud.core.logs import JsonFormatter, TextFormatter, about, form
from xmcloud.core.trace import Trace

TRACE = Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


def record(message: str = "took %s", level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("xmcloud.test").makeRecord(
        "xmcloud.test", level, __file__, 1, message, ("it",) if "%" in message else (), None
    )
    made.__dict__.update(extra)
    return made


def line(made: logging.LogRecord, project: str = "p") -> dict[str, Any]:
    text = JsonFormatter(project, "xmcloud-api").format(made)
    assert "\n" not in text
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_a_line_of_json() -> None:
    made = line(record(**about(TRACE, job="j", state="running")))
    assert made.pop("time").endswith("+00:00")
    assert made == {
        "severity": "INFO",
        "message": "took it",
        "logger": "xmcloud.test",
        "trace": TRACE.trace_id,
        "logging.googleapis.com/trace": f"projects/p/traces/{TRACE.trace_id}",
        "logging.googleapis.com/spanId": TRACE.span_id,
        "logging.googleapis.com/trace_sampled": True,
        "job": "j",
        "state": "running",
    }


def test_without_a_project_the_trace_is_by_its_own_name_alone() -> None:
    made = line(record(**about(str(TRACE))), project="")
    assert made["trace"] == TRACE.trace_id
    assert "logging.googleapis.com/trace" not in made


def test_the_trace_of_the_line_wins_over_the_current_one() -> None:
    with trace.span("other") as other:
        assert line(record(**about(TRACE)))["trace"] == TRACE.trace_id
        assert line(record(**about("")))["trace"] == other.trace.trace_id
        assert line(record())["trace"] == other.trace.trace_id
    assert "trace" not in line(record())


def test_an_exception_is_reported_with_its_stack() -> None:
    try:
        raise ValueError("of no use")
    except ValueError:
        made = line(record("failed", logging.ERROR, exc_info=sys.exc_info()))
    assert made["@type"].endswith("ReportedErrorEvent")
    assert made["serviceContext"]["service"] == "xmcloud-api"
    assert made["stack_trace"].endswith("ValueError: of no use\n")


def test_a_message_that_holds_a_stack_is_reported() -> None:
    text = "Exception on /v1/jobs [GET]\nTraceback (most recent call last)\n  File ..."
    assert "@type" in line(record(text, logging.ERROR))
    assert "@type" not in line(record(text, logging.WARNING))
    assert "@type" not in line(record("only words", logging.ERROR))


def test_a_line_of_text_ends_with_its_trace() -> None:
    shown = TextFormatter().format(record(**about(TRACE)))
    assert shown.endswith(f" INFO took it trace={TRACE.trace_id}")
    assert TextFormatter().format(record()).endswith(" INFO took it")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "text"),
        ({"K_SERVICE": "xmcloud-api"}, "json"),
        ({"K_SERVICE": "xmcloud-api", "XMCLOUD_LOG": "text"}, "text"),
        ({"XMCLOUD_LOG": "json"}, "json"),
    ],
)
def test_the_form_is_chosen_by_the_environment(
    environment: Mapping[str, str], expected: str
) -> None:
    assert form(environment, "text") == expected


def test_another_form_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"XMCLOUD_LOG is 'xml'\. It must be json or text\."):
        form({"XMCLOUD_LOG": "xml"})


def test_a_process_that_breaks_down_says_so_in_json() -> None:
    program = (
        "import logging, os\n"
        "from xmcloud.core.logs import set_up\n"
        "set_up({'XMCLOUD_LOG': 'json'}, 'xmcloud-worker')\n"
        "logging.getLogger('uvicorn.access').error('GET /?token=secret')\n"
        "logging.getLogger('other').info('not shown')\n"
        "logging.getLogger('xmcloud.jobs').info('shown')\n"
        "raise RuntimeError('broken')\n"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == ""
    shown, broken = [json.loads(each) for each in done.stdout.splitlines()]
    assert (shown["severity"], shown["message"]) == ("INFO", "shown")
    assert (broken["severity"], broken["message"]) == ("CRITICAL", "broken")
    assert "RuntimeError" in broken["stack_trace"]
