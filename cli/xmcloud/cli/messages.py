"""What a command says besides its answer."""

import click


def say(message: str) -> None:
    """On stderr, so that the answer on stdout can be piped on."""
    click.echo(message, err=True)
