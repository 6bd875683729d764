"""`xmcloud build`."""

import json
import sys
from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_ids
from xmcloud.cli.options import Reference, json_option, parse_reference

if TYPE_CHECKING:
    from xmcloud.core.builds import Build
    from xmcloud.core.models import Job

_PAGE = 200


@click.group(short_help="Look at builds of images and stop them; make one of a job.")
def build() -> None:
    """Look at builds of images and stop them. The same content is built once.

    Or make an image of a job here.
    """


@build.command("list", short_help="List builds, the newest first.")
@click.option(
    "--limit", type=click.IntRange(1, _PAGE), default=20, show_default=True, help="How many."
)
@json_option
def list_builds(limit: int, as_json: bool) -> None:
    """List builds, the newest first."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        found = client.builds(limit)
    if as_json:
        print_json(found)
        return
    if not found.builds:
        click.echo("No images were built yet.", err=True)
        return
    now = rows.utc_now()
    print_table(rows.BUILDS, [rows.build_row(each, now) for each in found.builds])


@build.command("show", short_help="Show a build, with the end of its log if it failed.")
@click.argument("id", metavar="BUILD")
@json_option
def show_build(id: str, as_json: bool) -> None:
    """Show a build, with the end of its log if it failed."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_json
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        found = find_build(client.builds(_PAGE).builds, id)
    if as_json:
        print_json(found)
        return
    now = rows.utc_now()
    print_fields(
        [
            ("Build", found.id),
            ("State", rows.build_state(found)),
            ("Image", found.image or found.spec.push_image_tag or found.spec.name),
            ("Asked for", f"{rows.instant(found.created_at, now)} by {found.by}"),
            ("Step", found.step),
            ("Message", found.message),
            ("Log", found.url),
        ]
    )
    if found.tail:
        click.echo(f"\n{found.tail}")


@build.command("stop", short_help="Stop a build.")
@click.argument("id", metavar="BUILD")
@json_option
def stop_build(id: str, as_json: bool) -> None:
    """Stop a build. Jobs that wait for its image fail."""
    from xmcloud.cli.tables import print_json
    from xmcloud.core.protocol import Act
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with connect() as client:
        stopped = client.stop_build(find_build(client.builds(_PAGE).builds, id).id, Act(by=user()))
    if as_json:
        print_json(stopped)
    else:
        click.echo(f"Build {stopped.id}: {stopped.state}")


@build.command("job", short_help="Make an image of a job's code and environment, here.")
@click.argument(
    "reference",
    metavar="JOB",
    callback=lambda ctx, param, value: parse_reference(value),
    shell_complete=complete_ids,
)
@click.option("--tag", metavar="NAME", default="", help="What to call it besides.")
@click.option("--push", is_flag=True, help="Push it to the registry that --tag names.")
@click.option(
    "--base",
    metavar="IMAGE",
    default="",
    help="What to build on; by default python:X.Y-slim with the Python of the job.",
)
@json_option
def build_job(reference: Reference, tag: str, push: bool, base: str, as_json: bool) -> None:
    """Make an image of a job's code and environment with the Docker engine of this machine.

    The code is exactly what the job runs: its archive, or its commit with what was not committed.
    `docker run IMAGE` does what the job does.
    """
    from contextlib import closing

    from xmcloud.cli.job_code import code_of
    from xmcloud.cli.messages import say
    from xmcloud.cli.resolve import find_job
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.packaging.images import image_name
    from xmcloud.xm_cloud.packaging.job_image import job_context
    from xmcloud.xm_cloud.packaging.local_engine import needed_engine

    if push and not tag:
        raise click.UsageError("--push needs to know where to: --tag HOST/PATH:VERSION.")
    with connect() as client:
        job = find_job(client, reference)
        name = image_name(job.name)
        with closing(needed_engine(name, say)) as engine, code_of(client, job) as code:
            say(f"image {name}: has the code of job {job.id}")
            with job_context(code, base or f"python:{_python_of(job)}-slim") as context:
                image = engine.build(name, context)
            if push:
                image = engine.push(image, tag)
            elif tag:
                image = engine.tag(image, tag)
    if as_json:
        click.echo(json.dumps({"image": image, "job": job.id}))
        return
    click.echo(image)
    say(f"Run it here: docker run --rm {image}")
    say(f"As a job: xmcloud clone {job.id[:8]} --image {image} --queue {job.queue}")


def _python_of(job: "Job") -> str:
    """The version that it asks for or last had, or that of this machine."""
    from xmcloud.core.specs import GitSource, PythonSource

    source = job.spec.executable
    asked = source.python if isinstance(source, PythonSource | GitSource) else ""
    execution = job.attempts[-1].execution if job.attempts else None
    had = ".".join(execution.python.split(".")[:2]) if execution else ""
    return asked or had or f"{sys.version_info.major}.{sys.version_info.minor}"


def find_build(builds: "list[Build]", beginning: str) -> "Build":
    """The one whose id begins so, among the newest. Raises NotFound and Ambiguous."""
    from xmcloud.cli.resolve import Ambiguous
    from xmcloud.core.errors import NotFound

    found = [each for each in builds if each.id.startswith(beginning)]
    if not found:
        raise NotFound("build", beginning, "See them with `xmcloud build list`.")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} builds begin with {beginning}.", "Write more of the id.")
    return found[0]
