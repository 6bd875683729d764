"""What several commands about this machine's worker share on their command line."""

from typing import Any

import click

from xmcloud.cli.complete import complete_queues, complete_workers

name_option = click.option(
    "--name", shell_complete=complete_workers, help="By default that of this machine."
)
gpus_option = click.option(
    "--gpus", metavar="GPUS", help="Numbers of GPUs to use, as 0,1; or all, or none.  [all]"
)
weighted_queues_option = click.option(
    "--queue",
    "queues",
    metavar="QUEUE[=WEIGHT]",
    multiple=True,
    shell_complete=complete_queues,
    help="A queue to take from; several in order of preference, or by weight with --order fair."
    "  [high, default, low]",
)


def queue_flags(queues: tuple[str, ...], order: str | None) -> dict[str, Any]:
    """`queues`, `order` and `weights` as the worker's settings have them. Raises InvalidInput."""
    from xmcloud.core.errors import InvalidInput

    names, weights = [], {}
    for queue in queues:
        name, given, weight = queue.partition("=")
        names.append(name)
        if given:
            weights[name] = _weight(queue, weight)
    if weights and order != "fair":
        raise InvalidInput(
            "--queue", " ".join(queues), "without a weight, unless with --order fair"
        )
    return {"queues": tuple(names) or None, "order": order, "weights": weights or None}


def _weight(queue: str, text: str) -> float:
    from xmcloud.core.errors import InvalidInput

    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise InvalidInput("--queue", queue, "QUEUE=WEIGHT with a number above 0, such as high=3")
    return weight
