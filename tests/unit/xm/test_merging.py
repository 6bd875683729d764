"""Merging layers of arguments."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcloud import xm

names = st.sampled_from(["a", "b", "c", "no space", "é"])
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(texts, st.integers(), st.booleans(), st.floats(allow_nan=False))
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.lists(st.lists(scalars), min_size=1))
mappings = st.dictionaries(names, values, max_size=4)
lists = st.lists(scalars, max_size=3)
layers = st.lists(st.one_of(mappings, lists, st.none()), max_size=5)


def test_a_keyword_keeps_its_first_position_and_takes_its_last_value() -> None:
    merged = xm.merge_args({"a": 1, "b": 2}, ["x"], {"c": 3, "a": 4}, ["y"])
    assert merged.to_argv() == ["--a=4", "--b=2", "x", "--c=3", "y"]


def test_keys_are_one_when_their_strings_are() -> None:
    assert xm.merge_args({1: "a"}, {"1": "b"}).to_argv() == ["--1=b"]


def test_a_later_none_removes_a_flag_without_a_warning() -> None:
    assert xm.merge_args({"a": 1, "b": 2}, {"a": None}).to_argv() == ["--b=2"]


def test_a_later_value_restores_a_removed_flag_where_it_was() -> None:
    assert xm.merge_args({"a": 1, "b": 2}, {"a": None}, {"a": 3}).to_argv() == ["--a=3", "--b=2"]


def test_none_for_a_whole_layer_changes_nothing() -> None:
    assert xm.merge_args(None, {"a": 1}, None) == xm.merge_args({"a": 1})


def test_merging_leaves_its_operands_alone() -> None:
    first = xm.merge_args({"a": 1}, ["x"])
    xm.merge_args(first, {"a": 2}, ["y"])
    assert first.to_argv() == ["--a=1", "x"]


@given(layers)
def test_merging_is_what_its_rules_say(operands: list[Any]) -> None:
    order: list[tuple[str, Any]] = []
    last: dict[str, Any] = {}
    for operand in operands:
        if isinstance(operand, dict):
            order += [("keyword", name) for name in operand if name not in last]
            last |= operand
        else:
            order += [("positional", value) for value in operand or []]
    expected = [
        argument
        for kind, item in order
        for argument in (
            xm.merge_args({item: last[item]}) if kind == "keyword" else xm.merge_args([item])
        ).to_argv()
    ]
    assert xm.merge_args(*operands).to_argv() == expected


@given(layers, st.integers(0, 5))
def test_merging_in_steps_is_merging_at_once(operands: list[Any], split: int) -> None:
    stepwise = xm.merge_args(xm.merge_args(*operands[:split]), xm.merge_args(*operands[split:]))
    assert stepwise == xm.merge_args(*operands)


@given(layers)
def test_a_shell_reads_exactly_the_argv(operands: list[Any]) -> None:
    args = xm.merge_args(*operands)
    assert shlex.split(" ".join(args.to_list())) == args.to_argv()


@given(st.dictionaries(names, texts), st.lists(texts))
def test_texts_reach_the_argv_unchanged(flags: dict[str, str], positional: list[str]) -> None:
    argv = xm.merge_args(flags, positional).to_argv()
    assert argv == [f"--{name}={value}" for name, value in flags.items()] + positional


@pytest.mark.parametrize("removed", [0, 1])
def test_removing_and_restoring_survive_merging_in_steps(removed: int) -> None:
    base = {"a": 1, "b": 2}
    name = list(base)[removed]
    without = xm.merge_args(base, {name: None})
    assert xm.merge_args(without, {name: 9}) == xm.merge_args(base, {name: 9})
