"""`xmcloud login|logout|whoami`."""

from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.cli.documents import WhoAmI


@click.command(short_help="Sign in to a control plane.")
@click.argument("url", required=False)
@click.option(
    "--from-terraform",
    "folder",
    metavar="[FOLDER]",
    is_flag=False,
    flag_value="infra/terraform",
    type=click.Path(file_okay=False, path_type=Path),
    help="To the one that Terraform made there.  [infra/terraform]",
)
@click.option(
    "--method",
    type=click.Choice(["adc", "metadata", "gcloud"]),
    help="adc: application default credentials; metadata: this machine's service account; gcloud: "
    "whom it is signed in as. Else the first of them that is here.",
)
@click.option(
    "--credentials",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A service account's key, or the configuration of workload identity federation.",
)
@click.option(
    "--token", type=click.File(), metavar="FILE", help="Holds an API token; - to paste it."
)
@click.option("--audience", metavar="URL", help="What ID tokens are made out to.  [the URL]")
@click.option("--project", metavar="PROJECT", help="The project of your commands.  [default]")
@json_option
def login(
    url: str | None,
    folder: Path | None,
    method: str | None,
    credentials: Path | None,
    token: IO[str] | None,
    audience: str | None,
    project: str | None,
    as_json: bool,
) -> None:
    """Sign in to the control plane at URL, for all commands, launch scripts and workers here.

    Kept are the address and the method, no secret of Google's; an API token is. Only you can read
    the file. XMCLOUD_URL and XMCLOUD_TOKEN win over it.
    """
    from xmcloud.cli import signing_in
    from xmcloud.cli.tables import print_json

    if (url is None) == (folder is None):
        raise click.UsageError("Give the URL of a control plane, or --from-terraform.")
    if sum(given is not None for given in (method, credentials, token)) > 1:
        raise click.UsageError("Give one of --method, --credentials and --token.")
    address, told = (url, "") if folder is None else signing_in.terraform_outputs(folder)
    assert address is not None
    secret = "" if token is None else _pasted(token)
    chosen = signing_in.chosen_login(
        address, audience or told, method, credentials, secret, project
    )
    known = signing_in.sign_in(chosen)
    if as_json:
        print_json(known)
        return
    click.echo(f"Signed in to {known.url} as {known.name} ({known.proof}).")
    _tell_roles(known)


def _pasted(file: IO[str]) -> str:
    """Not shown where somebody types it."""
    if file.isatty():
        return str(click.prompt("API token (not shown)", hide_input=True, err=True)).strip()
    return file.read().strip()


def _tell_roles(known: "WhoAmI") -> None:
    from xmcloud.cli.member_rows import roles

    if known.roles:
        click.echo(f"Roles: {roles(known.roles)}")
    else:
        click.echo(
            f"You have no role there yet. Ask an admin for: xmcloud member set {known.name} member",
            err=True,
        )


@click.command(short_help="Forget who is signed in here.")
def logout() -> None:
    """Forget who is signed in here, and the token at hand.

    Commands go to the control plane of this machine again. API tokens stay good: xmcloud token
    revoke.
    """
    from xmcloud.xm_cloud.credentials.login import forget_login
    from xmcloud.xm_cloud.places import home

    click.echo("Signed out." if forget_login(home()) else "Nobody was signed in.")


@click.command(short_help="Show who the control plane takes you for.")
@json_option
def whoami(as_json: bool) -> None:
    """Show who the control plane takes you for, your roles, and what proves who you are."""
    from xmcloud.cli import rows
    from xmcloud.cli.member_rows import roles
    from xmcloud.cli.signing_in import who_am_i
    from xmcloud.cli.tables import print_fields, print_json

    known = who_am_i()
    if as_json:
        print_json(known)
        return
    expires = known.expires_at
    print_fields(
        [
            ("Control plane", f"{known.url}, known from {known.source}"),
            ("Name", known.name),
            ("Roles", roles(known.roles) or "none; ask an admin: xmcloud member set"),
            ("Project", known.project),
            ("Proof", known.proof),
            ("Token until", rows.instant(expires, rows.utc_now()) if expires else ""),
        ]
    )
