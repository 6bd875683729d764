"""What a job came to, as people read it; whoever wrote it may have written anything."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from xmcloud.cli import rows
from xmcloud.cli.download import chosen
from xmcloud.cli.result_columns import compared
from xmcloud.cli.result_tables import series_rows, shape, value_rows
from xmcloud.cli.results import Glance, Results, brief, compact
from xmcloud.cli.sparklines import BLOCKS
from xmcloud.cli.stored_files import NotWritten, check_free, places
from xmcloud.cli.tables import plain_lines
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job
from xmcloud.core.runs import own_resource

A, B, C = "a" * 64, "b" * 64, "c" * 64
LOSS: dict[str, JsonValue] = {"last": 0.25, "min": 0.125, "max": 2.0, "count": 300}
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ESCAPE = "\x1b[2J"


def job(unit: int = 1, results: dict[str, Any] | None = None, **parameters: JsonValue) -> Job:
    attempt = {
        "fence": 1, "worker": "gpu-1", "session": "s" * 16, "claimed_at": NOW, "started_at": NOW,
        "finished_at": NOW, "outcome": "completed", "reason": {"code": "exited", "message": "ok"},
    }  # fmt: skip
    arguments = [{"name": name, "value": value} for name, value in parameters.items()]
    return Job.model_validate(
        {
            "id": "job" + "abcdefgh"[unit] * 13,
            "experiment_id": "e" * 16,
            "unit": unit,
            "name": "train",
            "spec": {
                "executable": {"kind": "command", "command": ("train",)},
                "arguments": arguments,
            },
            "state": "completed",
            "fence": 1,
            "reason": {"code": "exited", "message": "ok"},
            "queue": "default",
            "position": unit,
            "attempts": [attempt],
            "results": results or {},
            "created_at": NOW,
            "updated_at": NOW,
            "batch": A,
        }
    )


def test_results_of_a_recorded_run_are_taken_apart() -> None:
    found = Results.of(
        {
            "accuracy": 0.9,
            "summary": {"best": 1},
            "series": {"loss": LOSS},
            "blobs": {"model": A, "points": B, "names": C},
            "inputs": {"data": {"path": "/d", "size": 3, "digest": A}},
            "cut": True,
            "whole": C,
        }
    )
    assert (found.plain, found.summary) == ({"accuracy": 0.9}, {"best": 1})
    assert (found.files, found.cut) == ({"model": A}, True)
    assert found.points is not None
    assert (found.points.points, found.points.names) == (B, C)
    assert (found.series["loss"].count, found.inputs["data"].path) == (300, "/d")


@pytest.mark.parametrize(
    "results",
    [
        {"summary": 3, "series": [1], "blobs": "x", "inputs": None, "cut": 0.5, "whole": "all"},
        {"series": {"loss": [1, 2]}, "blobs": {"model": "../../etc"}, "inputs": {"a": 1}},
        {"series": {"loss": {**LOSS, "mean": 1}}, "blobs": {"points": 7}},
        {"": {"": []}, "cut": False},
    ],
)
def test_names_of_ours_with_other_values_are_the_jobs_own(results: dict[str, JsonValue]) -> None:
    assert Results.of(results) == Results(plain=results)


def test_files_named_as_points_are_files_without_series() -> None:
    assert Results.of({"blobs": {"points": A, "names": B}}).files == {"points": A, "names": B}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.7768698398515702, "0.77687"),
        (12345.678, "12346"),
        (1.23456789e-7, "1.2346e-07"),
        (3.0, "3"),
        (2e20, "2e+20"),
        (100_000, "100000"),
        (True, "true"),
        (None, "null"),
        ({"lr": 0.123456789, "sizes": [64, 1e6]}, '{"lr": 0.12346, "sizes": [64, 1000000.0]}'),
        ("all is well", "all is well"),
        (f"two\nlines{ESCAPE}", r"two\nlines\x1b[2J"),
    ],
)
def test_a_value_is_one_line(value: JsonValue, told: str) -> None:
    assert compact(value) == told


def test_values_fit_the_terminal() -> None:
    found = Results.of({"name": "x" * 100, f"b{ESCAPE}": 1, "summary": {"best": 0.5}})
    lines = plain_lines(("result", "value"), value_rows(found, 40))
    assert [len(line) for line in lines] == [15, 40, 11, 13]
    assert lines[1].endswith("x…")
    assert lines[2] == r"b\x1b[2J  1"
    assert lines[3] == "best      0.5"


def test_a_series_has_its_shape_between_its_lowest_and_its_highest() -> None:
    assert shape([5, 6, 7, 12], BLOCKS) == "▁▂▃█"
    assert shape([1, float("nan"), 2, float("inf")], BLOCKS) == "▁ █ "
    assert shape([3, 3], BLOCKS) == "▁▁"
    assert shape([-1e308, 1e308], BLOCKS) == "▁█"
    assert shape([float("nan")], BLOCKS) == ""
    assert shape(range(1000), BLOCKS, 8) == BLOCKS


def test_series_as_a_table() -> None:
    odd = {"last": "nan", "min": 1, "max": "inf", "count": 2}
    series = {"loss": Glance.model_validate(LOSS), "odd": Glance.model_validate(odd)}
    lines = {"loss": range(200)}
    columns = ("series", "over time", "last", "min", "max", "points")
    assert plain_lines(columns, series_rows(series, lines, BLOCKS, 36)) == [
        "SERIES  OVER TIME  LAST  MIN    MAX  POINTS",
        "loss    ▁▂▃▄▅▆▇█   0.25  0.125  2    300",
        "odd                nan   1      inf  2",
    ]
    bare = ("series", "last", "min", "max", "points")
    assert plain_lines(bare, series_rows(series, {}, BLOCKS, 80)) == [
        "SERIES  LAST  MIN    MAX  POINTS",
        "loss    0.25  0.125  2    300",
        "odd     nan   1      inf  2",
    ]


def test_in_a_few_words_numbers_of_the_summary_come_first() -> None:
    told: dict[str, JsonValue] = {"test": {"acc": 0.5, "all": [1]}, "steps": 7}
    told |= {"summary": {"best": 0.9}, "series": {"loss": LOSS}, "blobs": {"model": A}}
    found = Results.of(told)
    assert brief(found) == "best=0.9 steps=7 loss=0.25 test.acc=0.5"


def test_jobs_beside_each_other() -> None:
    jobs = [
        job(1, {"summary": {"best": 0.5}, "series": {"loss": LOSS}}, lr=0.1, opt="adam"),
        job(2, None, lr=0.2, opt="adam"),
        job(3, {"summary": {"best": 0.75}, "accuracy": 1}, lr=0.4, opt="adam"),
    ]
    table = compared(jobs, 80)
    assert table is not None
    assert plain_lines(*table) == [
        "UNIT  LR   BEST  LOSS  ACCURACY",
        "1     0.1  0.5   0.25",
        "3     0.4  0.75        1",
    ]


def test_what_does_not_differ_is_left_out_first() -> None:
    jobs = [
        job(n, {"constant": 1, "wide" * 5: n, "accuracy": n / 10, "loss": n}, lr=n / 10, wd=n)
        for n in (1, 2)
    ]
    shown = [table.columns for width in (80, 42, 24) if (table := compared(jobs, width))]
    assert shown == [
        ("unit", "lr", "wd", "constant", "wide" * 5, "accuracy", "loss"),
        ("unit", "lr", "wd", "wide" * 5, "loss"),
        ("unit", "lr", "accuracy"),
    ]


@pytest.mark.parametrize(
    "jobs",
    [[], [job(1, {"a": 1})], [job(1, {"a": 1}), job(2)], [job(1, {"a": []}), job(2, {"a": []})]],
)
def test_nothing_to_compare(jobs: list[Job]) -> None:
    assert compared(jobs, 80) is None


def test_a_recorded_run_ran_on_its_own() -> None:
    ran = job(1)
    own = ran.attempts[0].evolve(worker=own_resource(ran.experiment_id))
    assert rows.attempt_row(ran, ran.attempts[0], NOW)[1] == "gpu-1"
    assert rows.attempt_row(ran, own, NOW)[1] == "itself"
    assert "itself" in rows.job_row(ran.evolve(attempts=(own,)), NOW)


def test_files_by_name_or_by_folder() -> None:
    files = {"model": A, "plots/a": B, "plots/b": C}
    assert chosen(files, ()) == files
    assert chosen(files, ("plots", "model")) == {"plots/a": B, "plots/b": C, "model": A}
    assert chosen(files, ("plots/b",)) == {"plots/b": C}
    with pytest.raises(NotFound, match=r"'plot'\. The job has: model, plots/a, plots/b\."):
        chosen(files, ("plot",))
    with pytest.raises(NotFound, match="no files"):
        chosen({}, ("plot",))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("tensorboard/train/x", "tensorboard/train/x"),
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a//./b/../c", "a/b/c"),
        ("..", "_"),
        ("", "_"),
        (f"a{ESCAPE}\n\0b", "a_[2J__b"),
        ("C:\\temp\\x", "C__temp_x"),
        ("\ud800", "_"),
    ],
)
def test_no_name_leads_out_of_the_folder(name: str, path: str, tmp_path: Path) -> None:
    assert places(tmp_path, [name]) == {name: tmp_path / path}


@pytest.mark.parametrize("names", [("x", "../x"), ("x", "x/y"), ("x/y/z", "x")])
def test_two_files_in_one_place_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotWritten, match="do not fit into one folder"):
        places(tmp_path, names)


def test_a_link_in_the_folder_leads_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder)
    with pytest.raises(NotWritten, match="A link leads"):
        places(folder, ["out/x"])
    assert places(folder, ["in/x"]) == {"in/x": folder / "in" / "x"}


def test_what_is_there_already(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert check_free(path, A, force=False)
    path.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert not check_free(path, empty, force=True)
    assert check_free(path, A, force=True)
    with pytest.raises(NotWritten, match="--force"):
        check_free(path, A, force=False)
    with pytest.raises(NotWritten, match="is a folder"):
        check_free(tmp_path, A, force=True)
    with pytest.raises(NotWritten, match="cannot be written: File name too long"):
        check_free(tmp_path / ("x" * 300), A, force=True)
