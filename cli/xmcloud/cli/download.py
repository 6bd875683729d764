"""`xmcloud download`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import Reference, id_argument, json_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xmcloud.cli.documents import StoredFiles
    from xmcloud.cli.results import Results
    from xmcloud.core.models import Job
    from xmcloud.xm_cloud.client import Client

CSV = "points.csv"


@click.command(short_help="Fetch the files that a job stored.")
@id_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--to",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where they go; by default a new folder here, named as the job.",
)
@click.option("--points", is_flag=True, help=f"Fetch the series as {CSV}; files if NAME is given.")
@click.option("--force", is_flag=True, help="Overwrite files that are not the same.")
@click.option("--list", "listing", is_flag=True, help="Show what there is, and fetch nothing.")
@json_option
def download(
    reference: Reference,
    names: tuple[str, ...],
    folder: Path | None,
    points: bool,
    force: bool,
    listing: bool,
    as_json: bool,
) -> None:
    """Fetch the files that a job stored: artifacts, texts, figures, inputs, outputs, event files.

    All of them, or those that are named; the name of a folder stands for all that is in it. Each
    keeps its path below the folder. Files that are there already stay, if they are the same.
    """
    from xmcloud.cli.resolve import find_job
    from xmcloud.cli.results import whole_results
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.client import connect

    if listing and (points or force or folder):
        raise click.UsageError("--list fetches nothing: it goes without --to, --points and --force")
    with connect() as client:
        job = find_job(client, reference)
        results = whole_results(client, job.results)
        if listing:
            found = _described(client, job, chosen(results.files, names))
        else:
            files = {} if points and not names else chosen(results.files, names)
            found = _fetched(client, job, results, files, folder, points=points, force=force)
    if as_json:
        print_json(found)
    else:
        _print(found, listed=listing, series=len(results.series))


def chosen(files: "Mapping[str, str]", names: "Sequence[str]") -> dict[str, str]:
    """All without names; a name is that of a file or of a folder. Raises `NotFound`."""
    from xmcloud.cli.results import printable
    from xmcloud.core.errors import NotFound

    found = {} if names else dict(files)
    for name in names:
        some = {n: d for n, d in files.items() if n == name or n.startswith(f"{name.rstrip('/')}/")}
        if not some:
            shown = [*map(printable, list(files)[:20]), *(["..."] if len(files) > 20 else [])]
            raise NotFound("file", name, f"The job has: {', '.join(shown) or 'no files'}.")
        found |= some
    return found


def _described(client: "Client", job: "Job", files: "Mapping[str, str]") -> "StoredFiles":
    from xmcloud.cli.documents import StoredFile, StoredFiles
    from xmcloud.cli.result_tables import blob_sizes

    sizes = blob_sizes(client, files.values())
    told = [StoredFile(name=n, digest=d, size=sizes[d]) for n, d in files.items()]
    return StoredFiles(job=job.id, files=told)


def _fetched(
    client: "Client",
    job: "Job",
    results: "Results",
    files: "Mapping[str, str]",
    folder: Path | None,
    *,
    points: bool,
    force: bool,
) -> "StoredFiles":
    """Nothing is fetched if one of them has no place."""
    from xmcloud.cli import stored_files
    from xmcloud.core.errors import NotFound

    if not files and not points:
        raise NotFound("file of job", job.id, "It has stored none.")
    if points and results.points is None:
        raise NotFound("series of job", job.id, "It has logged none, or they are not stored.")
    into = Path(job.id[:8]) if folder is None else folder
    places = stored_files.places(into, [*files, *([CSV] if points else [])])
    told = _described(client, job, files)
    wanted = [
        file
        for file in told.files
        if stored_files.check_free(places[file.name], file.digest, force=force)
    ]
    for file in wanted:
        stored_files.fetch(client, file, places[file.name])
    if points and results.points is not None:
        stored_files.write_csv(client, results.points, places[CSV], force=force)
    placed = [file.evolve(path=places[file.name]) for file in told.files]
    return told.evolve(files=placed, points=places[CSV] if points else None)


def _print(found: "StoredFiles", *, listed: bool, series: int) -> None:
    from xmcloud.cli.messages import say
    from xmcloud.cli.result_tables import size_cell
    from xmcloud.cli.results import printable
    from xmcloud.cli.tables import print_table

    if not listed:
        paths = [file.path for file in found.files if file.path]
        for path in [*paths, *([found.points] if found.points else [])]:
            click.echo(path)
        return
    if found.files:
        rows = [[printable(f.name), size_cell(f.size), f.digest] for f in found.files]
        print_table(("file", "size", "sha-256"), rows)
    else:
        say(f"Job {found.job} has stored no files.")
    if series:
        say(f"{series} series: xmcloud download {found.job[:8]} --points")
