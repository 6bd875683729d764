"""Words for how attempts end."""

import json
import re
from pathlib import Path

import pytest

from xmcloud.core.models import Outcome, ReasonCode
from xmcloud.core.worker_protocol import RESULTS_LIMIT
from xmcloud.worker.reasons import UnusableResults, exited, read_results


def test_success_is_completed() -> None:
    end = exited(0, "last line", {"accuracy": 0.97})
    assert (end.outcome, end.reason.exit_code) == (Outcome.COMPLETED, 0)
    assert end.results == {"accuracy": 0.97}


def test_a_failure_shows_the_code_and_the_last_lines() -> None:
    end = exited(3, "Traceback\nValueError", {})
    assert end.outcome is Outcome.FAILED
    assert end.reason.message == "exited with code 3\nTraceback\nValueError"
    assert end.reason.exit_code == 3


@pytest.mark.parametrize(
    ("number", "named"), [(11, "SIGSEGV"), (9, "SIGKILL.*memory"), (63, "signal 63")]
)
def test_a_signal_is_named(number: int, named: str) -> None:
    end = exited(-number, "", {})
    assert end.reason.code is ReasonCode.SIGNALED
    assert re.search(named, end.reason.message)


def test_a_message_is_never_too_long() -> None:
    assert len(exited(1, "x" * 10_000, {}).reason.message) == 4000


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert read_results(path) == {}
    path.write_text('{"a": 1.0, "b": [null, true]}')
    assert read_results(path) == {"a": 1.0, "b": [None, True]}


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b'{"x": "\\ud800"}', "not valid JSON"),
        (b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not valid JSON"),
        (b"[1]", "no JSON object"),
        (b'{"x": ' + b"[" * 150 + b"]" * 150 + b"}", "levels"),
        (b'{"loss": NaN}', "not valid JSON"),
        (json.dumps({"x": "y" * RESULTS_LIMIT}).encode(), "more than 16,384 bytes"),
    ],
)
def test_unusable_results_say_why(tmp_path: Path, written: bytes, why: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(written)
    with pytest.raises(UnusableResults, match=why):
        read_results(path)
