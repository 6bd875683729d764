"""argparse: every declared argument with the value that it got."""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xmcloud.runs.arguments import Argument, plain, positional

if TYPE_CHECKING:
    from argparse import Action, ArgumentParser


def hook(
    argparse: Any, given: Sequence[Argument] | None, record: Callable[[list[Argument]], None]
) -> None:
    original = argparse.ArgumentParser.parse_known_args
    busy: list[ArgumentParser] = []

    @functools.wraps(original)
    def parse_known_args(
        self: "ArgumentParser", args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = sys.argv[1:] if args is None else list(args)
        if busy or words != sys.argv[1:]:
            result: tuple[Any, list[str]] = original(self, args, namespace)
            return result
        busy.append(self)
        try:
            if given is not None:
                words = argv(self, given)
            found, rest = original(self, words, namespace)
        finally:
            busy.pop()
        record([*declared(self, found, words), *(Argument(None, word) for word in rest)])
        return found, rest

    argparse.ArgumentParser.parse_known_args = parse_known_args


def declared(parser: "ArgumentParser", found: Any, words: Sequence[str]) -> list[Argument]:
    """In the order in which they were declared, those of a chosen subcommand last."""
    options: list[Argument] = []
    given: list[Any] = []
    below: list[Argument] = []
    for action in parser._actions:
        if isinstance(action.choices, dict) and (chosen := _chosen(action, found, words)):
            below = [Argument(None, chosen), *declared(action.choices[chosen], found, words)]
        elif hasattr(found, action.dest):
            value = plain(getattr(found, action.dest))
            if action.option_strings:
                options.append(Argument(_name(action), value))
            else:
                values = value if isinstance(value, list) else [value]
                given += [each for each in values if each is not None]
    return [*options, *positional(given), *below]


def _chosen(action: "Action", found: Any, words: Sequence[str]) -> str | None:
    named = getattr(found, action.dest, None)
    choices = action.choices or ()
    return named if named in choices else next((w for w in words if w in choices), None)


def _name(action: "Action") -> str:
    """The first long option, without its dashes; a short one is read again too."""
    long = [option for option in action.option_strings if option.startswith("--")]
    return (long or action.option_strings)[0].lstrip("-+/")


def argv(parser: "ArgumentParser", given: Sequence[Argument]) -> list[str]:
    """What the parser reads as those values; a value that is the default is left to it."""
    options = _options(parser)
    subcommands = _subcommands(parser)
    found: list[str] = []
    for argument in given:
        if argument.name is None:
            word = str(argument.value)
            if word in subcommands:
                chosen = subcommands[word]
                options, subcommands = _options(chosen), _subcommands(chosen)
            found.append(word)
        elif argument.name in options:
            found += _words(options[argument.name], argument.value)
        else:
            found.append(f"--{argument.name}={argument.value}")
    return found


def _options(parser: "ArgumentParser") -> dict[str, "Action"]:
    return {
        option.lstrip(parser.prefix_chars): action
        for option, action in parser._option_string_actions.items()
    }


def _subcommands(parser: "ArgumentParser") -> dict[str, "ArgumentParser"]:
    return {
        name: below
        for action in parser._actions
        if isinstance(action.choices, dict)
        for name, below in action.choices.items()
    }


def _words(action: "Action", value: Any) -> Iterator[str]:
    option = action.option_strings[0]
    if value is None or (plain(action.default) == value and not action.required):
        return
    if action.nargs == 0:
        yield from _switch(action, value)
    elif type(action).__name__ in ("_AppendAction", "_ExtendAction") and action.nargs is None:
        for item in value if isinstance(value, list) else [value]:
            yield from _with_value(option, item)
    elif action.nargs is None or not isinstance(value, list):
        yield from _with_value(option, value)
    elif type(action).__name__ == "_AppendAction":
        for items in value:
            yield from (option, *map(str, items))
    else:
        yield from (option, *map(str, value))


def _switch(action: "Action", value: Any) -> Iterator[str]:
    if type(action).__name__ == "_CountAction":
        yield from [action.option_strings[0]] * int(value)
    elif type(action).__name__ == "BooleanOptionalAction":
        wanted = [o for o in action.option_strings if o.startswith("--no-") != bool(value)]
        yield wanted[0]
    elif plain(action.const) == value:
        yield action.option_strings[0]


def _with_value(option: str, value: Any) -> Iterator[str]:
    if option.startswith("--"):
        yield f"{option}={value}"
    else:
        yield from (option, str(value))
