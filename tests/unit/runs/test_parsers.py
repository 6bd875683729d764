"""What parsers find is recorded with its types; what a job was given is what they find again."""

import argparse
import enum
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xmcloud.core import arguments as protocol
from xmcloud.core.specs import Argument as ProtocolArgument
from xmcloud.runs.arguments import Argument, plain, words
from xmcloud.runs.parsers import argparse_parsers

PROGRAMS = {
    "argparse": """
import argparse, json
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("-n", "--count", type=int)
p.add_argument("--name", default="x")
p.add_argument("--flag", action="store_true")
p.add_argument("--no-cache", action="store_false", dest="cache")
p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
p.add_argument("--tag", action="append")
p.add_argument("--layers", nargs="+", type=int)
p.add_argument("-v", action="count", default=0)
g = p.add_mutually_exclusive_group()
g.add_argument("--fast", default="a b")
g.add_argument("--slow", default="c d")
s = p.add_subparsers(dest="what")
t = s.add_parser("train")
t.add_argument("--epochs", type=int, default=3)
t.add_argument("files", nargs="*")
print(json.dumps(vars(p.parse_args())))
""",
    "click": """
import click, json
@click.group()
@click.option("--lr", type=float, default=0.1)
@click.option("--shout/--no-shout", default=True)
@click.option("--flag", is_flag=True)
@click.pass_context
def main(context, **options): context.obj = options
@main.command()
@click.option("--tag", multiple=True)
@click.option("--size", nargs=2, type=int)
@click.option("-v", "--verbose", count=True)
@click.argument("files", nargs=-1)
@click.pass_obj
def train(outer, **options): print(json.dumps(outer | options))
main()
""",
    "absl": """
import json
from absl import app, flags
F = flags.FLAGS
flags.DEFINE_float("lr", 0.1, "")
flags.DEFINE_bool("flag", False, "")
flags.DEFINE_bool("amp", True, "")
flags.DEFINE_list("layers", ["1"], "")
flags.DEFINE_multi_integer("size", [1], "")
flags.DEFINE_enum("mode", "a", ["a", "b"], "")
flags.DEFINE_string("name", None, "")
def main(rest):
    names = ("lr", "flag", "amp", "layers", "size", "mode", "name")
    print(json.dumps({n: F[n].value for n in names} | {"rest": rest[1:]}))
app.run(main)
""",
}

LINES = [
    ("argparse", "", {"lr": 0.1, "flag": False, "amp": True, "count": None, "v": 0}),
    (
        "argparse",
        "--lr=5 -n 3 --flag --no-cache --no-amp --tag=a --tag=--b --layers 1 2 -vv train a",
        {"lr": 5.0, "count": 3, "flag": True, "amp": False, "tag": ["a", "--b"], "v": 2},
    ),
    (
        "click",
        "--lr 5 --no-shout --flag train --tag a --tag b --size 1 2 -vvv x -- -y",
        {"lr": 5.0, "shout": False, "flag": True, "tag": ["a", "b"], "size": [1, 2]},
    ),
    ("click", "train", {"shout": True, "flag": False, "tag": [], "verbose": 0}),
    (
        "absl",
        "--lr=5 --flag --noamp --layers=a,b --size=1 --size=2 --mode=b --name=1 rest -- --x",
        {"lr": 5.0, "flag": True, "amp": False, "layers": ["a", "b"], "size": [1, 2], "name": "1"},
    ),
    ("absl", "", {"lr": 0.1, "amp": True, "name": None}),
]


def run(folder: Path, parser: str, line: list[str], given: list[Any] | None) -> tuple[Any, Any]:
    """What the program printed, and the arguments that were recorded."""
    script, record = folder / "program.py", folder / "record"
    watch = (
        "import json\n"
        "from xmcloud.runs.arguments import Argument\n"
        "from xmcloud.runs.parsers import watch\n"
        f"given = {given!r}\n"
        f"record = lambda found: open({str(record)!r}, 'w').write(json.dumps(found))\n"
        "watch(given and [Argument(*each) for each in given], record)\n"
    )
    script.write_text(watch + PROGRAMS[parser])
    argv = [sys.executable, str(script), *line]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads(record.read_text())


@pytest.mark.parametrize(("parser", "line", "typed"), LINES)
def test_arguments_come_back_as_they_went_in(
    tmp_path: Path, parser: str, line: str, typed: dict[str, Any]
) -> None:
    found, recorded = run(tmp_path, parser, line.split(), None)
    by_name = {name: value for name, value in recorded if name is not None}
    assert typed.items() <= by_name.items()
    assert {name: type(value) for name, value in typed.items()} == {
        name: type(by_name[name]) for name in typed
    }
    told = protocol.render(ProtocolArgument(name=n, value=v) for n, v in recorded)
    assert run(tmp_path, parser, told, recorded)[0] == found


@pytest.mark.parametrize(
    ("parser", "line", "edits", "expected"),
    [
        ("argparse", "--flag train", {"flag": False, "lr": 0.25}, {"flag": False, "lr": 0.25}),
        ("argparse", "", {"layers": [4, 5], "amp": False}, {"layers": [4, 5], "amp": False}),
        ("click", "train", {"shout": False, "tag": ["z"]}, {"shout": False, "tag": ["z"]}),
        ("absl", "", {"layers": ["q", "r"], "amp": False}, {"layers": ["q", "r"], "amp": False}),
    ],
)
def test_edited_arguments_reach_the_parser(
    tmp_path: Path, parser: str, line: str, edits: dict[str, Any], expected: dict[str, Any]
) -> None:
    _, recorded = run(tmp_path, parser, line.split(), None)
    edited = [[name, edits.get(name, value)] for name, value in recorded]
    found, _ = run(tmp_path, parser, [], edited)
    assert expected.items() <= found.items()


LATE = {
    "click": """
import click, json
@click.group()
@click.option("--lr", type=float)
@click.option("--password", prompt=True, hide_input=True)
def main(lr, password): pass
@main.command()
@click.option("--on/--off", default=True)
def train(on):
    WATCH
    print(json.dumps(on))
main()
""",
    "absl": """
import json
from absl import app, flags
flags.DEFINE_float("lr", 0.1, "")
flags.DEFINE_bool("on", True, "")
def main(_):
    WATCH
    print(json.dumps(flags.FLAGS.on))
app.run(main)
""",
}


@pytest.mark.parametrize(
    ("parser", "line", "expected"),
    [
        (
            "click",
            "--lr=2 --password=secret train --off",
            [["lr", 2.0], [None, "train"], ["on", False]],
        ),
        (
            "absl",
            "a --lr 2 --noon b -- --on",
            [["lr", 2.0], ["on", False], *([None, word] for word in ("a", "b", "--", "--on"))],
        ),
    ],
)
def test_what_was_parsed_before_is_recorded_too(
    tmp_path: Path, parser: str, line: str, expected: list[Any]
) -> None:
    record = tmp_path / "record"
    watch = (
        "from xmcloud.runs.parsers import watch; "
        f"watch(None, lambda found: open({str(record)!r}, 'w').write(json.dumps(found)))"
    )
    (tmp_path / "program.py").write_text(LATE[parser].replace("WATCH", watch))
    argv = [sys.executable, "program.py", *line.split()]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "false\n"
    assert json.loads(record.read_text()) == expected


def test_parsers_of_other_lines_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = importlib.util.module_from_spec(argparse.__spec__)
    argparse.__spec__.loader.exec_module(fresh)  # type: ignore[union-attr]
    recorded: list[Any] = []
    argparse_parsers.hook(fresh, None, recorded.append)
    parser = fresh.ArgumentParser()
    parser.add_argument("--x")
    assert parser.parse_args(["--x=library"]).x == "library"
    assert recorded == []
    monkeypatch.setattr(sys, "argv", ["program", "--x=1"])
    assert parser.parse_args().x == "1"
    assert recorded == [[Argument("x", "1")]]


class Colour(enum.Enum):
    RED = 1


class Half(float):
    """As numpy's numbers are."""


class Scalar:
    """As a tensor of one number is."""

    shape = ()

    def item(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (False, False),
        (1.0, 1.0),
        ("1", "1"),
        ([None], [None]),
        ((1, "a"), [1, "a"]),
        (2**70, str(2**70)),
        (float("inf"), "inf"),
        (Path("a/b"), "a/b"),
        (Colour.RED, "RED"),
        (Half(0.5), 0.5),
        (Scalar(), 7),
        ({1: {"a": (2,)}}, {"1": {"a": [2]}}),
    ],
)
def test_values_keep_the_types_that_json_has(value: object, expected: object) -> None:
    found = plain(value)
    assert (found, type(found)) == (expected, type(expected))


def test_words_are_those_of_the_worker() -> None:
    pairs: list[tuple[str | None, Any]] = [
        ("a", 1.0), ("b", True), ("c", False), ("d", None), ("e", [None, 1, "x"]), (None, "-x"),
        (None, None), ("f", {"k": 1}), (None, False), ("g", "a b"),
    ]  # fmt: skip
    ours = words(Argument(*pair) for pair in pairs)
    assert ours == protocol.render(ProtocolArgument(name=n, value=v) for n, v in pairs)
