"""How collections of arguments become an argv and words of a shell."""

import subprocess
from collections import OrderedDict
from enum import Enum
from typing import Any

import pytest

from xmcloud import xm


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("collection", "argv"),
    [
        pytest.param({"b": 1, "a": 2}, ["--b=1", "--a=2"], id="a mapping keeps its order"),
        pytest.param({1: 2, (3,): 4}, ["--1=2", "--(3,)=4"], id="keys are turned into strings"),
        pytest.param(OrderedDict(a=1), ["--a=1"], id="any mapping"),
        pytest.param(["a", 1, 0.5], ["a", "1", "0.5"], id="a list is positional"),
        pytest.param(("a", "--b"), ["a", "--b"], id="a tuple is positional"),
        pytest.param([None, True, [1]], ["None", "True", "[1]"], id="positional values are text"),
        pytest.param([Colour.RED], ["RED"], id="a positional enum"),
        pytest.param(None, [], id="nothing"),
        pytest.param({"k": True, "l": False}, ["--k", "--nol"], id="flags on and off"),
        pytest.param({"k": [1, "a"]}, ["--k=1", "--k=a"], id="a flat list repeats the flag"),
        pytest.param({"k": (1, True)}, ["--k=1", "--k=True"], id="a flat tuple"),
        pytest.param({"k": [None]}, ["--k=None"], id="None within a list is text"),
        pytest.param({"k": [Colour.RED]}, ["--k=RED"], id="an enum within a list"),
        pytest.param({"k": [], "l": ()}, [], id="an empty list gives nothing"),
        pytest.param({"k": [[1, 2], 3]}, ["--k=[[1, 2], 3]"], id="a nested list is one token"),
        pytest.param({"k": ((1,), 2)}, ["--k=((1,), 2)"], id="a nested tuple is one token"),
        pytest.param({"k": {"x": 1}}, ["--k={'x': 1}"], id="a dict is one token"),
        pytest.param({"k": [{"x": 1}, 2]}, ["--k={'x': 1}", "--k=2"], id="a list of dicts is flat"),
        pytest.param({"k": Colour.RED}, ["--k=RED"], id="an enum is its name"),
        pytest.param({"k": ""}, ["--k="], id="an empty text"),
        pytest.param({"k": "None"}, ["--k=None"], id="the text None"),
        pytest.param({"a b": " 'c'\n$x "}, ["--a b= 'c'\n$x "], id="nothing is escaped"),
        pytest.param({"k": xm.ShellSafeArg("$HOME")}, ["--k=$HOME"], id="a shell-safe value"),
    ],
)
def test_the_argv_of_a_collection(collection: Any, argv: list[str]) -> None:
    assert xm.SequentialArgs.from_collection(collection).to_argv() == argv


def test_none_leaves_a_flag_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"lr=None .* lr='None'"):
        args = xm.merge_args({"lr": None, "batch": 1})
    assert args.to_argv() == ["--batch=1"]


@pytest.mark.parametrize("text", ["--flag", b"bytes", ""])
def test_a_bare_string_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"write \["):
        xm.merge_args(text)


@pytest.mark.parametrize("scalar", [3, 0.5, object(), {1, 2}, iter(())])
def test_what_is_no_collection_is_refused(scalar: Any) -> None:
    with pytest.raises(TypeError, match="give a mapping, a list or None"):
        xm.merge_args(scalar)


def test_an_argument_no_process_can_receive_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        xm.merge_args({"k": "a\0b"}).to_argv()


def test_words_of_a_shell_are_quoted_unless_shell_safe() -> None:
    args = xm.merge_args({"a": "b c", "d": [xm.ShellSafeArg("$X Y"), "$X"]}, ["e f"])
    assert args.to_list() == ["--a='b c'", "--d=$X Y", "--d='$X'", "'e f'"]


def test_words_can_be_escaped_and_joined_otherwise() -> None:
    args = xm.merge_args({"a": "b c", "on": True}, ["d"])
    assert args.to_list(repr, lambda flag, value: f"{flag} {value}") == [
        "'--a' 'b c'",
        "'--on'",
        "'d'",
    ]


@pytest.mark.parametrize(
    ("collection", "needed"),
    [
        ({"a": "$X"}, False),
        ({"a": xm.ShellSafeArg("$X")}, True),
        ({"a": ["b", xm.ShellSafeArg("$X")]}, True),
        ([xm.ShellSafeArg("$X")], True),
        (None, False),
    ],
)
def test_only_shell_safe_arguments_need_a_shell(collection: Any, needed: bool) -> None:
    assert xm.merge_args(collection).needs_shell is needed


def test_a_shell_safe_argument_refuses_to_become_a_string() -> None:
    argument = xm.ShellSafeArg("$HOME")
    with pytest.raises(RuntimeError, match="turned into a string"):
        str(argument)
    with pytest.raises(RuntimeError, match="turned into a string"):
        f"--home={argument}"


def test_arguments_as_a_mapping() -> None:
    args = xm.merge_args({"a": [1]}, ["b"])
    assert args.to_dict() == {"a": [1], "b": True}
    assert args.to_dict(kwargs_only=True) == {"a": [1]}


def test_a_positional_argument_of_a_mapping_is_the_text_it_sends() -> None:
    args = xm.merge_args([xm.ShellSafeArg("$X"), Colour.RED, 1])
    assert args.to_dict() == {"$X": True, "RED": True, "1": True}


def test_values_that_are_strings_can_be_rewritten() -> None:
    args = xm.merge_args({"here": "here", "n": 1, "l": ["here"]}, ["here", 2])
    rewritten = args.rewrite_args(lambda text: text.replace("here", "there"))
    assert rewritten.to_argv() == ["--here=there", "--n=1", "--l=here", "there", "2"]
    assert args.to_argv() == ["--here=here", "--n=1", "--l=here", "here", "2"]


def test_arguments_can_be_removed_by_name_or_text() -> None:
    args = xm.merge_args(["x", "y"], {"a": 1, "y": 2}, ["z"])
    assert args.remove_args("y").to_argv() == ["x", "--a=1", "z"]
    assert args.remove_args("y") == xm.merge_args(["x"], {"a": 1}, ["z"])
    more = xm.merge_args(args.remove_args("x"), ["new"])
    assert more.to_argv() == ["y", "--a=1", "--y=2", "z", "new"]
    assert args.to_argv() == ["x", "y", "--a=1", "--y=2", "z"]


def test_arguments_are_equal_when_they_say_the_same_in_the_same_order() -> None:
    assert xm.merge_args({"a": 1}, ["b"]) == xm.merge_args(xm.merge_args({"a": 1}), ["b"])
    assert xm.merge_args({"a": 1, "b": 2}) != xm.merge_args({"b": 2, "a": 1})
    assert xm.merge_args(["a"]) != ["a"]
    assert repr(xm.merge_args({"a": 1}, ["b"])) == "SequentialArgs(a=1, 'b')"


AWKWARD = [
    "",
    " ",
    "a b",
    "'",
    '"',
    "\\",
    "$HOME",
    "`ls`",
    "*",
    "\n",
    "é",
    "\udcff",
    "-n",
    "--",
    "=;&|",
]


def test_a_process_receives_every_byte() -> None:
    argv = xm.merge_args({"k": AWKWARD}, AWKWARD).to_argv()
    assert received(["sh", "-c", 'printf "%s\\0" "$@"', "sh", *argv]) == argv


def test_a_shell_reads_every_word_back_whole() -> None:
    args = xm.merge_args({"k": AWKWARD}, AWKWARD)
    assert received(["sh", "-c", f"printf '%s\\0' {' '.join(args.to_list())}"]) == args.to_argv()


def received(command: list[str]) -> list[str]:
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return [part.decode(errors="surrogateescape") for part in output.split(b"\0")][:-1]
