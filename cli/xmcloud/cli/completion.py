"""`xmcloud completion`."""

import click

_WHERE = {
    "bash": 'eval "$(xmcloud completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(xmcloud completion zsh)"  # in ~/.zshrc, after compinit',
    "fish": "xmcloud completion fish > ~/.config/fish/completions/xmcloud.fish",
}


@click.command(
    short_help="Print a shell's completion script.",
    epilog="\b\nTo use it:\n" + "\n".join(f"  {line}" for line in _WHERE.values()),
)
@click.argument("shell", type=click.Choice(list(_WHERE)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands, ids, queues and pools."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(ctx.find_root().command, {}, "xmcloud", "_XMCLOUD_COMPLETE").source())
