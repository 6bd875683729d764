"""`xmcloud import`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.cli.documents import Imported


@click.command("import", short_help="Fill an empty control plane from an exported file.")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def import_(path: Path, as_json: bool) -> None:
    """Fill an empty control plane with everything of FILE, which `xmcloud export` wrote.

    The file is read whole and checked before anything is changed. What waited in a queue waits
    again; what ran when it was exported runs again once its worker's lease is over. When it was
    cut short, the same command goes on where it stopped.
    """
    from xmcloud.cli.documents import Imported
    from xmcloud.cli.tables import print_json
    from xmcloud.cli.transfer_progress import progress
    from xmcloud.xm_cloud.transfer import import_from
    from xmcloud.xm_cloud.transfer_client import TransferClient

    with TransferClient.connected() as client, progress() as report:
        archive, done = import_from(client, path, report)
    imported = Imported(path=path, manifest=archive.manifest, done=done)
    if as_json:
        print_json(imported)
    else:
        _print(imported)


def _print(imported: "Imported") -> None:
    from xmcloud.cli.export import described

    what = described(imported.manifest)
    if imported.done.resumed:
        click.echo(f"{imported.path} is imported already: {what}")
    else:
        click.echo(f"Imported {what} from {imported.path}")
