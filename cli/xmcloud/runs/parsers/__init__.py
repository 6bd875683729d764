"""Parsers of command lines: what they found is recorded, what a job was given is handed over.

Standard library alone, since all of this runs inside people's scripts.
"""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from xmcloud.runs.arguments import Argument
from xmcloud.runs.parsers import absl_flags, argparse_parsers, click_commands
from xmcloud.runs.parsers.loading import attach_to

Record = Callable[[list[Argument]], None]
"""Is told all arguments; what was told last counts."""

_HOOKS: Mapping[str, Callable[[Any, Sequence[Argument] | None, Record], None]] = {
    "argparse": argparse_parsers.hook,
    "click.core": click_commands.hook,
    "absl.flags": absl_flags.hook,
}


def watch(given: Sequence[Argument] | None, record: Record) -> None:
    """From now on, and for modules that come later; parsers take `given` in place of argv."""
    for name, hook in _HOOKS.items():

        def attach(module: ModuleType, hook: Any = hook) -> None:
            hook(module, given, record)

        attach_to(name, attach)
