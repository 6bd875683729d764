"""`xmcloud repro`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_queues
from xmcloud.cli.options import Reference, id_argument, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xmcloud.core.models import Job
    from xmcloud.xm_cloud.client import Client
    from xmcloud.xm_cloud.comparing.differences import Comparison, Difference, Pair


@click.command(short_help="Run the same again and check that it was the same.")
@id_argument
@click.option(
    "--queue",
    metavar="QUEUE",
    shell_complete=complete_queues,
    help="Where the copy waits; by default the queue of the original.",
)
@click.option("--results", "strict", is_flag=True, help="Results that differ are a failure too.")
@json_option
def repro(reference: Reference, queue: str | None, strict: bool, as_json: bool) -> None:
    """Run an experiment or a job again as it is, wait for it, and compare what ran.

    Command, variables, Python, installed packages, code and how it ended have to be the same;
    results are shown side by side. Ends with 1 if anything else differs, and says what. Ctrl-C
    ends only the waiting.
    """
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.messages import say
    from xmcloud.cli.resolve import find
    from xmcloud.cli.rows import SHORT
    from xmcloud.cli.runs_of import clone, jobs_of
    from xmcloud.cli.tables import print_json
    from xmcloud.core.protocol import CloneExperiment
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with connect() as client:
        found = find(client, reference)
        originals = jobs_of(client, found)
        queue = queue or _queue(reference, originals)
        copies = clone(client, found, CloneExperiment(creator=user(), queue=queue))
        id = copies[0].experiment_id[:SHORT]
        try:
            say(f"Experiment {id} runs {reference} again; it waits in queue {queue}.")
            ended = _followed(client, copies)
        except KeyboardInterrupt:
            say(
                f"\nExperiment {id} goes on. Compare it later: xmcloud diff {reference} {id}; "
                f"stop it: xmcloud stop {id}"
            )
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        comparison = _compared(client, originals, ended, strict)
    if as_json:
        print_json(comparison)
    else:
        for pair in comparison.pairs:
            _show(pair, strict)
    if not comparison.same:
        say(f"{reference} is not reproduced.")
        raise click.exceptions.Exit(ExitCode.DIFFERENT)
    say(f"{reference} is reproduced.")


def _queue(reference: Reference, jobs: "Sequence[Job]") -> str:
    """The one of the original. Raises `NotFound` and `Ambiguous`."""
    from xmcloud.cli.resolve import Ambiguous
    from xmcloud.core.errors import NotFound

    queues = sorted({job.queue for job in jobs})
    if not queues:
        raise NotFound("job in experiment", str(reference))
    if len(queues) > 1:
        raise Ambiguous(
            f"The jobs of {reference} are of the queues {', '.join(queues)}.",
            "Name one for all of them: --queue QUEUE.",
        )
    return queues[0]


def _followed(client: "Client", copies: "Sequence[Job]") -> "list[Job]":
    """The jobs as they ended."""
    from xmcloud.xm_cloud.following import follow
    from xmcloud.xm_cloud.watcher import Watcher

    experiment = copies[0].experiment_id
    watcher = Watcher(lambda since, wait: client.changes(experiment, since, wait))
    return follow(client, watcher, copies, shown=())


def _compared(
    client: "Client", originals: "Sequence[Job]", ended: "Sequence[Job]", strict: bool
) -> "Comparison":
    from xmcloud.cli.runs_of import Freezes
    from xmcloud.xm_cloud.comparing.differences import Comparison
    from xmcloud.xm_cloud.comparing.pairing import pair
    from xmcloud.xm_cloud.comparing.reproduction import reproduction, was_seen

    freezes = Freezes(client)
    # As they are now: one that still ran has perhaps ended meanwhile.
    newest = [client.job(job.id) for job in originals]
    paired = pair(newest, ended).pairs
    pairs = [reproduction(freezes.side(one), freezes.side(other)) for one, other in paired]
    same = all(was_seen(job) for job in ended)
    return Comparison(same=same and not any(_failures(each, strict) for each in pairs), pairs=pairs)


def _failures(pair: "Pair", strict: bool) -> "list[Difference]":
    from xmcloud.xm_cloud.comparing.differences import Section

    return pair.unequal() if strict else pair.unequal(Section.RESULTS)


def _show(pair: "Pair", strict: bool) -> None:
    from xmcloud.cli.comparisons import names, print_differences
    from xmcloud.cli.messages import say
    from xmcloud.xm_cloud.comparing.differences import Change, Section

    results = [each for each in pair.differences if each.section is Section.RESULTS]
    print_differences(pair, [*pair.unequal(Section.RESULTS), *results])
    equal = [d for d in pair.differences if d.change is Change.EQUAL and d not in results]
    if equal:
        sections = dict.fromkeys(each.section.value for each in equal)
        say(f"{pair.b} has the same as {pair.a}: {', '.join(sections)}")
    for line in pair.unknown:
        say(f"Not compared: {line}.")
    differing = pair.unequal(*(() if strict else (Section.RESULTS,)))
    if differing:
        say(f"{pair.b} differs from {pair.a}: {names(differing)}")
    elif any(each.change is not Change.EQUAL for each in results):
        say("Results differ, which does not count without --results.")
