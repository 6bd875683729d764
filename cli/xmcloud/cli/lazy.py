"""A group of commands that imports the module of a command only when that command is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """Where a command is, as `module:attribute`, and its line in the list of commands."""

    path: str
    help: str

    def load(self) -> click.Command:
        module, _, attribute = self.path.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), self.path
        return command


class LazyGroup(click.Group):
    """Lists its commands, and completes their names, without importing any."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self.lazy.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=lazy.help)
            for name, lazy in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]
