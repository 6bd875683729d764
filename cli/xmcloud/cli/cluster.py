"""`xmcloud cluster`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.local.clusters import ClusterInfo, Gke, Nodes

_name = click.argument("name", metavar="NAME")
_project = click.option(
    "--project",
    metavar="PROJECT",
    required=True,
    envvar="GOOGLE_CLOUD_PROJECT",
    help="The project on Google Cloud; else GOOGLE_CLOUD_PROJECT.",
)
_location = click.option(
    "--location", metavar="LOCATION", required=True, help="A region or a zone: europe-west4-a."
)
_endpoint = click.option("--endpoint", envvar="XMCLOUD_GKE_ENDPOINT", default="", hidden=True)


@click.group(short_help="Create and delete clusters on Google Cloud.")
def cluster() -> None:
    """Create and delete clusters of Google Kubernetes Engine, where jobs can run."""


@cluster.command("create", short_help="Create a cluster and wait until it is ready.")
@_name
@_project
@_location
@click.option("--autopilot", is_flag=True, help="Machines come and go with the jobs.")
@click.option("--machine-type", metavar="TYPE", help="Of the machines: n1-standard-8.")
@click.option("--nodes", type=click.IntRange(1, 1000), help="Machines in each zone.  [1]")
@click.option(
    "--accelerator", metavar="TYPE=COUNT", help="GPUs of each machine: t4=1, a100=2, h100=8."
)
@click.option("--spot", is_flag=True, help="Cheap machines that may be taken away.")
@_endpoint
@json_option
def create(
    name: str,
    project: str,
    location: str,
    autopilot: bool,
    machine_type: str | None,
    nodes: int | None,
    accelerator: str | None,
    spot: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Create a cluster and wait until it is ready, which takes five to ten minutes.

    With --autopilot there is nothing more to choose; else say which machines it has. Those cost
    money until `xmcloud cluster delete`.
    """
    from xmcloud.cli.tables import print_json

    machines = _machines(autopilot, machine_type, nodes, accelerator, spot)
    with _gke(project, location, endpoint) as gke:
        begun = gke.create(name, machines)
        _wait(gke, begun, f"Creating cluster {name}")
        made = gke.get(name)
    if as_json:
        print_json(made)
        return
    click.echo(f"Cluster {name} is ready.")
    where = f"--location {location} --project {project}"
    click.echo(f"Connect to it: gcloud container clusters get-credentials {name} {where}", err=True)


@cluster.command("delete", short_help="Delete a cluster and all that runs on it.")
@_name
@_project
@_location
@click.option("--yes", is_flag=True, help="Do not ask.")
@_endpoint
@json_option
def delete(name: str, project: str, location: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete a cluster and all that runs on it, and wait until it is gone."""
    from xmcloud.cli.tables import print_json

    with _gke(project, location, endpoint) as gke:
        found = gke.get(name)
        if not yes:
            question = f"Delete cluster {name} in {found.location} and all that runs on it?"
            click.confirm(question, abort=True, err=True)
        _wait(gke, gke.delete(name), f"Deleting cluster {name}")
    if as_json:
        print_json(found.evolve(state="deleted", nodes=0))
    else:
        click.echo(f"Cluster {name} is gone.")


@cluster.command("list", short_help="List the clusters of a project.")
@_project
@click.option("--location", metavar="LOCATION", default="-", help="Only those of a location.")
@_endpoint
@json_option
def list_clusters(project: str, location: str, endpoint: str, as_json: bool) -> None:
    """List the clusters of a project."""
    from xmcloud.cli.tables import print_json, print_table

    with _gke(project, location, endpoint) as gke:
        found = gke.list()
    if as_json:
        print_json(found)
    elif not found.clusters:
        click.echo("There is no cluster. Create one: xmcloud cluster create", err=True)
    else:
        print_table(
            ["name", "location", "state", "machines", "version"], [*map(_row, found.clusters)]
        )


def _row(cluster: "ClusterInfo") -> list[str]:
    machines = "autopilot" if cluster.autopilot else str(cluster.nodes)
    return [cluster.name, cluster.location, cluster.state, machines, cluster.version]


def _machines(
    autopilot: bool,
    machine_type: str | None,
    nodes: int | None,
    accelerator: str | None,
    spot: bool,
) -> "Nodes | None":
    from xmcloud.local.clusters import Nodes

    if autopilot:
        if machine_type or nodes or accelerator or spot:
            raise click.UsageError("--autopilot chooses machines itself: leave out what they are.")
        return None
    if not machine_type:
        raise click.UsageError("Say --autopilot, or which machines: --machine-type n1-standard-8")
    kind, count = _accelerator(accelerator) if accelerator else ("", 0)
    return Nodes(machine_type, nodes or 1, kind, count, spot)


def _accelerator(text: str) -> tuple[str, int]:
    kind, _, count = text.partition("=")
    if not (kind and count.isascii() and count.isdigit() and int(count)):
        raise click.BadParameter(f"{text!r} is not like t4=1.", param_hint="--accelerator")
    return kind, int(count)


@contextmanager
def _gke(project: str, location: str, endpoint: str) -> "Iterator[Gke]":
    from xmcloud.local.clusters import Gke

    gke = Gke(project, location, endpoint)
    try:
        yield gke
    finally:
        gke.close()


def _wait(gke: "Gke", operation: str, doing: str) -> None:
    from xmcloud.cli.messages import say

    say(f"{doing}; Ctrl-C ends only the waiting.")
    try:
        gke.wait(operation, lambda news: say(f"{doing}: {news}"))
    except KeyboardInterrupt:
        say(f"\n{doing} goes on. Look at it: xmcloud cluster list")
        raise
