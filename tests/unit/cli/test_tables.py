"""Tables and the rows in them."""

import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from xmcloud.cli import rows, tables
from xmcloud.cli.run import exit_status
from xmcloud.cli.tables import Cell, Span, plain_lines, print_table
from xmcloud.core.models import Job, JobState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def job(**changes: Any) -> Job:
    start = NOW - timedelta(minutes=10)
    ended = {
        "fence": 1,
        "worker": "gpu-1",
        "session": "s" * 16,
        "claimed_at": start,
        "started_at": start + timedelta(seconds=5),
        "finished_at": start + timedelta(seconds=70),
        "outcome": "failed",
        "reason": {"code": "exited", "message": "exited with code 3\nlast line", "exit_code": 3},
    }
    return Job.model_validate(
        {
            "id": "jobaaaaaaaaaaaaa",
            "experiment_id": "expaaaaaaaaaaaaa",
            "unit": 3,
            "name": "train",
            "spec": {
                "executable": {"kind": "command", "command": ["/bin/train it"]},
                "arguments": [{"name": "lr", "value": 0.1}, {"value": "data set"}],
            },
            "state": "failed",
            "fence": 1,
            "reason": ended["reason"],
            "queue": "default",
            "position": 1,
            "attempts": [ended],
            "created_at": start,
            "updated_at": NOW,
            "batch": "0" * 64,
            **changes,
        }
    )


def test_plain_text_is_aligned_and_without_colours() -> None:
    table: list[list[Cell]] = [
        ["a", [Span("2 failed", "red"), Span(", "), Span("1 queued")]],
        ["longer", ""],
    ]
    assert plain_lines(("id", "jobs"), table) == [
        "ID      JOBS",
        "a       2 failed, 1 queued",
        "longer",
    ]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(("id", "title"), [["a", [Span("failed", "red")]], ["b", "[bold]not markup"]])
    assert "\x1b[31mfailed\x1b[0m" in terminal.getvalue()
    assert "[bold]not markup" in terminal.getvalue()


def test_states_are_told_in_the_order_of_a_jobs_life() -> None:
    counts = {JobState.FAILED: 1, JobState.QUEUED: 12, JobState.RUNNING: 0}
    assert plain_lines(("jobs",), [[rows.state_counts(counts)]])[1] == "12 queued, 1 failed"
    assert rows.state_counts({}) == "no jobs"


def test_a_job_tells_what_it_did_and_why_it_failed() -> None:
    row = rows.job_row(job(), NOW)
    assert re.split(r" {2,}", plain_lines(rows.JOBS, [row])[1]) == [
        "3",
        "jobaaaaa",
        "train",
        "failed",
        "lr=0.1 data set",
        "gpu-1",
        "1 min 05 s",
        "exited with code 3",
    ]
    assert rows.command_line(job()) == "'/bin/train it' --lr=0.1 'data set'"
    assert rows.full_reference(job()) == "expaaaaa/3"


def test_a_job_that_completed_tells_its_results() -> None:
    done = job(state="completed", results={"accuracy": 0.97123456, "note": "ok"})
    assert rows.detail(done) == "accuracy=0.9712 note=ok"


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        ("completed", 0, 0),
        ("failed", 7, 7),
        ("failed", -9, 137),
        ("failed", None, 1),
        ("stopped", None, 1),
    ],
)
def test_run_ends_as_the_command_did(state: str, exit_code: int | None, status: int) -> None:
    reason = {"code": "exited", "message": "so", "exit_code": exit_code}
    assert exit_status(job(state=state, reason=reason)) == status


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_json(job())
    assert json.loads(capsys.readouterr().out)["id"] == "jobaaaaaaaaaaaaa"
