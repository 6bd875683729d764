"""`xmcloud diff`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_ids
from xmcloud.cli.options import Reference, json_option, parse_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xmcloud.xm_cloud.client import Client
    from xmcloud.xm_cloud.comparing.differences import Comparison


@click.command(short_help="Show what differs between two runs.")
@click.argument(
    "references",
    metavar="A B",
    nargs=2,
    callback=lambda ctx, param, values: tuple(map(parse_reference, values)),
    shell_complete=complete_ids,
)
@click.option("--all", "everything", is_flag=True, help="Show also what is equal.")
@click.option("-p", "--patch", is_flag=True, help="Show also how files differ, line by line.")
@json_option
def diff(
    references: tuple[Reference, Reference], everything: bool, patch: bool, as_json: bool
) -> None:
    """Show what differs between two runs: code, parameters, packages, machine, results.

    Jobs of two experiments are compared in pairs: a job with its copy, else with that of the same
    number. Ends with 1 if anything differs.
    """
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.client import connect

    if patch and as_json:
        raise click.UsageError("--patch is for people; leave it or --json out.")
    with connect() as client:
        comparison, patches = _compared(client, *references, patch=patch)
    if as_json:
        print_json(comparison if everything else _unequal(comparison))
    else:
        _show(comparison, everything)
        for line in patches:
            click.echo(line)
    if not comparison.same:
        raise click.exceptions.Exit(ExitCode.DIFFERENT)


def _compared(
    client: "Client", a: Reference, b: Reference, *, patch: bool
) -> "tuple[Comparison, list[str]]":
    from pathlib import Path

    from xmcloud.cli.code_of import CodeOf
    from xmcloud.cli.rows import full_reference
    from xmcloud.cli.runs_of import Freezes, named_jobs
    from xmcloud.xm_cloud.comparing.differences import Comparison
    from xmcloud.xm_cloud.comparing.jobs import compare
    from xmcloud.xm_cloud.comparing.pairing import pair

    paired = pair(named_jobs(client, a), named_jobs(client, b))
    freezes, code = Freezes(client), CodeOf(client, Path.cwd(), archives=patch)
    pairs = [
        code.explained(compare(freezes.side(one), freezes.side(other)))
        for one, other in paired.pairs
    ]
    only_a, only_b = (list(map(full_reference, jobs)) for jobs in (paired.only_a, paired.only_b))
    same = all(each.same for each in pairs) and not only_a and not only_b
    comparison = Comparison(same=same, pairs=pairs, only_a=only_a, only_b=only_b)
    return comparison, code.patches if patch else []


def _unequal(comparison: "Comparison") -> "Comparison":
    pairs = [pair.evolve(differences=pair.unequal()) for pair in comparison.pairs]
    return comparison.evolve(pairs=pairs)


def _show(comparison: "Comparison", everything: bool) -> None:
    from xmcloud.cli.comparisons import print_differences
    from xmcloud.cli.messages import say

    shown = [pair for pair in comparison.pairs if everything or not pair.same]
    for number, pair in enumerate(shown):
        if number:
            click.echo()
        print_differences(pair, pair.differences if everything else pair.unequal())
    _alone("A", comparison.only_a)
    _alone("B", comparison.only_b)
    for line in dict.fromkeys(text for pair in comparison.pairs for text in pair.unknown):
        say(f"Not compared: {line}.")
    if equal := len([pair for pair in comparison.pairs if pair.same]):
        say(f"{equal} of {len(comparison.pairs)} pairs do not differ.")


def _alone(side: str, jobs: "Sequence[str]") -> None:
    if jobs:
        click.echo(f"Only in {side}: {', '.join(jobs)}")
