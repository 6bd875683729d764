"""`xmcloud worker init`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xmcloud.cli.complete import complete_pools, complete_queues
from xmcloud.cli.options import json_option
from xmcloud.cli.worker_flags import gpus_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from xmcloud.cli.checks.check import Check
    from xmcloud.cli.worker_setup import SetUp

_FOLDER = click.Path(path_type=Path, file_okay=False)
_WORDS = {
    "ok": ("ok     ", "green"),
    "warning": ("missing", "yellow"),
    "failed": ("fails  ", "red"),
}


@click.command(short_help="Set up the worker of this machine: asks, verifies, writes worker.json.")
@click.option("--home", type=_FOLDER, help="Folder of its settings.  [XMCLOUD_HOME]")
@click.option("--url", help="The control plane.")
@click.option("--token-file", type=click.File(), help="A file with its token, or - for stdin.")
@click.option("--name", help="By default that of this machine.")
@click.option("--pool", shell_complete=complete_pools, help="The pool it belongs to.  [local]")
@click.option(
    "--queue",
    "queues",
    metavar="QUEUE",
    multiple=True,
    shell_complete=complete_queues,
    help="A queue to take from; several in order of preference.  [high, default, low]",
)
@click.option("--slots", type=click.IntRange(1, 1000), help="Jobs at once.  [1]")
@gpus_option
@click.option("--cache", type=_FOLDER, help="Folder of what jobs share.  [~/.cache/xmcloud]")
@click.option("--checkpoints", type=_FOLDER, help="Folder of checkpoints.  [in the home]")
@click.option("--yes", is_flag=True, help="Ask nothing: what is not given is as by default.")
@json_option
def init(home: Path | None, yes: bool, as_json: bool, **given: Any) -> None:
    """Set up the worker of this machine: asks, verifies the answers, and writes worker.json.

    The token goes to a file of its own. Both can be read by you alone. What is there already is
    shown and kept.
    """
    import os

    from xmcloud.cli.tables import print_json
    from xmcloud.cli.worker_setup import SetUp, compare, present
    from xmcloud.xm_cloud.places import home as usual_home

    given = _plain(given)
    place = (home or usual_home(os.environ)).expanduser().absolute()
    while (there := present(place)) is not None:
        _tell(_shown(place, there), as_json)
        other = "" if yes else _other_folder()
        if not other:
            compare(place, there, {**given, "token": None})
            _tell(_next(place), as_json)
            if as_json:
                print_json(SetUp(home=place, settings=there, written=False))
            return
        place = Path(other).expanduser().absolute()
    done = _set_up(place, given, lambda line: _tell(line, as_json), ask=not yes)
    if as_json:
        print_json(done)


def _tell(line: str, as_json: bool) -> None:
    click.echo(line, err=as_json)


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """As settings stand in JSON; None is what was not given."""
    token_file = given.pop("token_file")
    folders = {name: given[name] for name in ("cache", "checkpoints")}
    return {
        **given,
        **{name: path and str(path.expanduser().absolute()) for name, path in folders.items()},
        "queues": list(given["queues"]) or None,
        "token": token_file.read().strip() if token_file else None,
    }


def _shown(home: Path, settings: dict[str, Any]) -> str:
    lines = [f"A worker is set up already, and stays so: {home / 'worker.json'}"]
    for name, value in settings.items():
        told = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(f"  {name:12} {told}")
    return "\n".join(lines)


def _other_folder() -> str:
    question = "Another folder, for another worker (empty: none)"
    return str(click.prompt(question, default="", show_default=False, err=True))


def _next(home: Path) -> str:
    from xmcloud.xm_cloud.places import home as usual_home

    usual = home == usual_home().expanduser().absolute()
    variable = "" if usual else f"XMCLOUD_HOME={home} "
    return (
        f"Start it: {variable}xmcloud worker start\n"
        f"Or let systemd do so: {variable}xmcloud worker install --now"
    )


def _set_up(
    home: Path, given: dict[str, Any], tell: "Callable[[str], None]", *, ask: bool
) -> "SetUp":
    from xmcloud.cli.checks.check import Verdict
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.worker_answers import answers
    from xmcloud.cli.worker_checks import checks
    from xmcloud.cli.worker_setup import NotUsable, SetUp, keep
    from xmcloud.worker.settings import WorkerSettings

    values = answers(home, given, ask=ask)
    with parsing():
        settings = WorkerSettings.model_validate({**values, "home": home})
    looked: list[Check] = []
    for check in checks(settings):
        looked.append(check)
        tell(_line(check))
    if problems := [str(check) for check in looked if check.verdict is Verdict.FAILED]:
        raise NotUsable(problems)
    token = values.pop("token")
    keep(home, values, token)
    wrote = f"{home / 'worker.json'}" + (f" and {home / 'token'}" if token else "")
    tell(f"Wrote {wrote}.\n{_next(home)}")
    return SetUp(home=home, settings=values, checks=looked, written=True)


def _line(check: "Check") -> str:
    word, colour = _WORDS[check.verdict]
    return f"{click.style(word, fg=colour)} {check.name}: {check}"
