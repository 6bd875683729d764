"""From typed arguments to the tokens a process receives."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from xmcloud.core.arguments import command_line, render
from xmcloud.core.specs import Argument


@pytest.mark.parametrize(
    ("name", "value", "tokens"),
    [
        ("lr", 0.1, ["--lr=0.1"]),
        ("lr", 1.0, ["--lr=1.0"]),
        ("epochs", 10, ["--epochs=10"]),
        ("name", "two words", ["--name=two words"]),
        ("name", "", ["--name="]),
        ("name", "a\nb'\"$x", ["--name=a\nb'\"$x"]),
        ("amp", True, ["--amp"]),
        ("amp", False, ["--noamp"]),
        ("seed", None, []),
        ("layer", [1, 2], ["--layer=1", "--layer=2"]),
        ("layer", [], []),
        ("layer", [None], ["--layer=None"]),
        ("layer", [True, [1, "x"]], ["--layer=True", "--layer=[1, 'x']"]),
        ("config", {"a": 1}, ["--config={'a': 1}"]),
        (None, "train", ["train"]),
        (None, 3, ["3"]),
        (None, True, ["True"]),
        (None, None, []),
        (None, [1, 2], ["[1, 2]"]),
    ],
)
def test_an_argument(name: str | None, value: JsonValue, tokens: list[str]) -> None:
    assert render([Argument(name=name, value=value)]) == tokens


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.tuples(texts, texts)))
def test_texts_arrive_verbatim_and_in_order(pairs: list[tuple[str, str]]) -> None:
    arguments = [Argument(name=name, value=value) for name, value in pairs]
    assert render(arguments) == [f"--{name}={value}" for name, value in pairs]


def test_a_shell_reads_what_is_meant_for_it_and_nothing_else() -> None:
    arguments = [
        Argument(name="home", value="$HOME/a b", shell=True),
        Argument(name="we ird$X", value="$X", shell=True),
        Argument(name="text", value="$HOME;'\"\n"),
        Argument(value="two words"),
        Argument(value="$X", shell=True),
    ]
    argv = command_line(["/usr/bin/printf", "%s\\0"], arguments)
    printed = subprocess.run(
        argv, env={"HOME": "/home/ada", "X": "1 2"}, capture_output=True, check=True
    ).stdout.decode()
    assert printed.split("\0")[:-1] == [
        "--home=/home/ada/a",
        "b",
        "--we ird$X=1",
        "2",
        "--text=$HOME;'\"\n",
        "two words",
        "1",
        "2",
    ]


def test_without_such_an_argument_no_shell_starts() -> None:
    assert command_line(["a b"], [Argument(name="x", value="$Y")]) == ["a b", "--x=$Y"]
