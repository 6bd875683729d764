"""`xmcloud export`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.core.transfer import Manifest


@click.command(short_help="Write everything of the control plane into a file.")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
def export(path: Path, force: bool, as_json: bool) -> None:
    """Write everything of the control plane into FILE, a tar that `xmcloud import` reads.

    That is every document, log, result and archive of code; not the values of secrets. Only you
    can read the file: keep it so. It is there whole or not at all.
    """
    from xmcloud.cli.documents import Exported
    from xmcloud.cli.tables import print_json
    from xmcloud.cli.transfer_progress import progress
    from xmcloud.xm_cloud.transfer import export_to
    from xmcloud.xm_cloud.transfer_client import TransferClient

    with TransferClient.connected() as client, progress() as report:
        manifest = export_to(client, path, report, force=force)
    exported = Exported(path=path, size=path.stat().st_size, manifest=manifest)
    if as_json:
        print_json(exported)
    else:
        click.echo(f"Exported {described(exported.manifest)} to {path}")


def described(manifest: "Manifest") -> str:
    """How much it holds."""
    from xmcloud.cli.sparklines import size

    experiments, jobs = (manifest.documents.get(name, 0) for name in ("experiments", "jobs"))
    files = f"{_counted(manifest.blobs, 'file')} ({size(manifest.blob_bytes)})"
    return f"{_counted(experiments, 'experiment')} with {_counted(jobs, 'job')} and {files}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
