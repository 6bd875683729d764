"""`python -m xmcloud.cli.smoke`: ends with 0 if everything worked, else with 1."""

import sys
import tempfile
from pathlib import Path

import click

from xmcloud.cli.smoke.commands import Commands, wanted_environment
from xmcloud.cli.smoke.steps import Smoke, asked_for_vertex
from xmcloud.cli.smoke.trying import Step, show, try_all


@click.command(help="Try each part of a deployment once: that of XMCLOUD_URL, else Terraform's.")
@click.option(
    "--terraform",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("infra/terraform"),
    show_default=True,
    help="Where it was applied. SMOKE_VERTEX=1 has a job run on Vertex AI, too.",
)
def main(terraform: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="xmcloud-smoke-") as name:
        commands = Commands.apart(Path(name).resolve(), wanted_environment())
        smoke = Smoke(commands, terraform.absolute())
        tried = []
        try:
            tried = try_all(smoke.steps(vertex=asked_for_vertex()))
        finally:
            tried += try_all([Step("Clean-up", smoke.clean_up, "xmcloud worker list")])
    show(tried)
    sys.exit(0 if all(each.ok for each in tried) else 1)


if __name__ == "__main__":
    main()
