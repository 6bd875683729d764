"""click: every parameter of the command that runs, and of the groups around it."""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xmcloud.runs.arguments import Argument, plain, positional


def hook(
    core: Any, given: Sequence[Argument] | None, record: Callable[[list[Argument]], None]
) -> None:
    command = core.Command
    main, invoke = command.main, command.invoke

    @functools.wraps(main)
    def with_given(self: Any, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        if args is None and given is not None:
            args = argv(self, given)
        return main(self, args, *rest, **named)

    @functools.wraps(invoke)
    def recorded(self: Any, context: Any) -> Any:
        record(parameters(context))
        return invoke(self, context)

    command.main, command.invoke = with_given, recorded
    context = sys.modules["click.globals"].get_current_context(silent=True)
    if context is not None:
        record(parameters(context))


def parameters(context: Any) -> list[Argument]:
    """What was parsed, the outermost command first; a secret that is typed in is left out."""
    found = [] if context.parent is None else parameters(context.parent)
    if context.parent is not None:
        found.append(Argument(None, context.info_name))
    options: list[Argument] = []
    given: list[Any] = []
    for parameter in context.command.params:
        if parameter.name not in context.params or getattr(parameter, "hide_input", False):
            continue
        value = plain(context.params[parameter.name])
        if parameter.param_type_name == "option":
            options.append(Argument(_name(parameter), value))
        else:
            values = value if isinstance(value, list) else [value]
            given += [each for each in values if each is not None]
    return [*found, *options, *positional(given)]


def _name(option: Any) -> str:
    return str(max(option.opts, key=len)).lstrip("-+/")


def argv(command: Any, given: Sequence[Argument]) -> list[str]:
    """What the command reads as those values."""
    options = _options(command)
    found: list[str] = []
    for argument in given:
        if argument.name is None:
            word = str(argument.value)
            if word in getattr(command, "commands", {}):
                command = command.commands[word]
                options = _options(command)
            found.append(word)
        elif argument.name in options:
            found += _words(options[argument.name], argument.value)
        else:
            found.append(f"--{argument.name}={argument.value}")
    return found


def _options(command: Any) -> dict[str, Any]:
    return {
        name.lstrip("-+/"): parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in parameter.opts
    }


def _words(option: Any, value: Any) -> Iterator[str]:
    name = max(option.opts, key=len)
    if value is None:
        return
    if option.count:
        yield from [name] * int(value)
    elif option.is_flag and isinstance(value, bool):
        yield from [name] if value else option.secondary_opts[:1]
    elif option.is_flag:
        yield from [name] if plain(option.flag_value) == value else []
    else:
        for item in value if option.multiple and isinstance(value, list) else [value]:
            yield from (name, *map(str, item if isinstance(item, list) else [item]))
