"""What several commands share on their command line."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from xmcloud.cli.complete import complete_ids, complete_pools, complete_projects, complete_queues
from xmcloud.cli.failures import JSON

F = TypeVar("F", bound=Callable[..., Any])


class Reference(NamedTuple):
    """An experiment or a job by its id or the beginning of it; or a unit, or a job of it."""

    id: str
    unit: int | None = None
    name: str = ""

    def __str__(self) -> str:
        unit = self.id if self.unit is None else f"{self.id}/{self.unit}"
        return f"{unit}/{self.name}" if self.name else unit


def parse_reference(text: str) -> Reference:
    """Raises click's BadParameter for what cannot be an id."""
    id, slash, rest = text.partition("/")
    unit, named, name = rest.partition("/")
    if not _is_id(id) or (slash and not _is_unit(unit)) or (named and not name):
        raise click.BadParameter(
            f"{text!r} is no id. Ids look like k3v7qm2a; k3v7qm2a/3 is unit 3, and "
            "k3v7qm2a/3/worker its job of that name."
        )
    return Reference(id, int(unit) if slash else None, name)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 16 and all(c in "abcdefghijklmnopqrstuvwxyz234567" for c in text)


def _is_unit(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0


def _note_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON] = value
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, callback=_note_json, help="Print one JSON document."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be sent, with prices, and send nothing."
)
id_argument = click.argument(
    "reference",
    metavar="ID",
    callback=lambda ctx, param, value: parse_reference(value),
    shell_complete=complete_ids,
)
ids_argument = click.argument(
    "references",
    metavar="ID...",
    nargs=-1,
    required=True,
    callback=lambda ctx, param, values: tuple(map(parse_reference, values)),
    shell_complete=complete_ids,
)
queue_option = click.option(
    "--queue",
    metavar="QUEUE",
    default="default",
    show_default=True,
    shell_complete=complete_queues,
    help="The queue to wait in.",
)
project_option = click.option(
    "--project",
    metavar="PROJECT",
    shell_complete=complete_projects,
    help="In place of the one of your login or XMCLOUD_PROJECT.",
)
everywhere_option = click.option(
    "--everywhere", is_flag=True, help="In all projects, and for what belongs to none."
)


def scope(project: str | None, everywhere: bool) -> str:
    """The project that is meant, or * for everywhere. Raises click's UsageError for both."""
    from xmcloud.core.identity import DEFAULT_PROJECT, EVERYWHERE
    from xmcloud.xm_cloud.places import current_project

    if project is not None and everywhere:
        raise click.UsageError("Give --project or --everywhere.")
    return EVERYWHERE if everywhere else project or current_project() or DEFAULT_PROJECT


pool_option = click.option(
    "--pool",
    metavar="POOL",
    default="local",
    show_default=True,
    shell_complete=complete_pools,
    help="The workers that may run it.",
)
