import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from tests.unit.xm_cloud.jobs import BEGAN, arguments, job
from xmcloud.core.models import Job, JobState, Member
from xmcloud.core.specs import Argument
from xmcloud.xm_cloud.plain import PlainView
from xmcloud.xm_cloud.progress import LiveView
from xmcloud.xm_cloud.rows import duration, final_table, parameters, short

ENDED = [
    job(
        1,
        JobState.COMPLETED,
        results={"accuracy": 0.97123},
        given=arguments(lr=0.001, layers=[1, 2], name="[red]x"),
    ),
    job(2, JobState.FAILED, seconds=75, given=arguments(lr=1.0)),
    job(3, JobState.STOPPED, message="enough", results={"steps": 7}),
]


def plain(begin: Sequence[Job], *changes: Job) -> str:
    stream = io.StringIO()
    with PlainView(begin, stream) as view:
        for change in changes:
            view.changed(change)
    return stream.getvalue()


def test_lines_say_what_changed_and_end_with_a_table() -> None:
    running = job(1, JobState.RUNNING, given=ENDED[0].spec.arguments)
    waiting = [job(1, given=ENDED[0].spec.arguments), job(2), job(3)]
    assert plain(waiting, running, running, *ENDED).splitlines() == [
        "[1] queued lr=0.001 layers=[1, 2] name=[red]x",
        "[2] queued",
        "[3] queued",
        "[1] running",
        "[1] completed 1.0 s accuracy=0.9712",
        "[2] failed: exit code 1 1 min 15 s",
        "[3] stopped: enough 1.0 s steps=7",
        "unit  parameters                          accuracy  steps  duration    status",
        "1     lr=0.001 layers=[1, 2] name=[red]x  0.9712           1.0 s       completed",
        "2     lr=1" + " " * 49 + "1 min 15 s  failed: exit code 1",
        "3                                                   7      1.0 s       stopped: enough",
        "1 completed, 1 failed, 1 stopped",
    ]


def test_jobs_of_a_group_are_told_apart() -> None:
    ids = [Member(id=job(unit).id, name=name) for unit, name in enumerate(("a", "b"), 1)]
    first, second = (
        job(unit).evolve(unit=7, name=ids[unit - 1].name, group=ids) for unit in (1, 2)
    )
    lines = plain([first, second]).splitlines()
    assert lines[:2] == ["[7 a] queued", "[7 b] queued"]
    assert [line.split()[:2] for line in lines[3:5]] == [["7", "a"], ["7", "b"]]


def terminal(height: int = 30) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=100, height=height, color_system=None
    )


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_ends_with_the_same_table() -> None:
    console = terminal()
    with LiveView([job(1), job(2), job(3)], console) as view:
        view.printed(ENDED[0], ["[bold]not markup", "\x1b[31mred\x1b[0m"])
        for change in ENDED:
            view.changed(change)
    lines = [line.rstrip() for line in shown(console).splitlines()]
    assert "[1] [bold]not markup" in shown(console)
    assert "[1] red" in shown(console)
    assert "lr=0.001 layers=[1, 2] name=[red]x" in lines[-4]
    assert lines[-1] == "1 completed, 1 failed, 1 stopped"


def test_a_low_terminal_shows_what_is_under_way_and_what_ended_last() -> None:
    jobs = [job(unit) for unit in range(1, 41)]
    jobs[9] = job(10, JobState.RUNNING)
    jobs[0] = job(1, JobState.COMPLETED, seconds=1)
    jobs[1] = job(2, JobState.COMPLETED, seconds=2)
    console = terminal(height=9)
    view = LiveView(jobs, console)
    console.print(view.now())
    rows = [line.split() for line in shown(console).splitlines()]
    assert [row[0] for row in rows[1:-1]] == ["1", "2", "3", "10"]
    assert rows[-1] == ["37", "queued,", "1", "running,", "2", "completed"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (1e-7, "1e-07"),
        (12345.678, "1.235e+04"),
        (20000.0, "20000"),
        (True, "true"),
        (None, "null"),
        ([1, "a"], '[1, "a"]'),
        ("é" * 70, "é" * 59 + "…"),
    ],
)
def test_values_are_short(value: object, text: str) -> None:
    assert short(value) == text  # type: ignore[arg-type]


def test_positional_arguments_and_absent_flags() -> None:
    given = (Argument(value="a b"), *arguments(skipped=None, on=True))
    assert parameters(job(1, given=given)) == "a b on=true"


def test_durations() -> None:
    assert duration(job(1)) == ""
    assert duration(job(1, JobState.STARTING)) == ""
    assert duration(job(1, JobState.RUNNING), now=BEGAN) == "0.0 s"
    assert duration(job(1, JobState.COMPLETED, seconds=3725)) == "1 h 02 min"


def test_a_recorded_run_shows_its_summary_and_where_its_series_ended() -> None:
    recorded = {
        "summary": {"best": 0.9},
        "series": {"loss": {"last": 0.25, "min": 0.2, "max": 1.0, "count": 9}},
        "blobs": {"model": "a" * 64},
        "own": [1, 2],
    }
    run = job(1, JobState.COMPLETED, results=recorded)
    heading, row = final_table([run])
    assert heading[2:-2] == ["best", "loss", "own"]
    assert row[2:-2] == ["0.9", "0.25", "[1, 2]"]
