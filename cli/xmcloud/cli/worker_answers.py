"""The questions of `xmcloud worker init`, and what is taken without asking."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from xmcloud.cli.failures import parsing
from xmcloud.cli.worker_checks import check_plane, name_problem, names_in, queue_problem
from xmcloud.cli.worker_setup import NotUsable
from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.worker.settings import WorkerSettings, has_identity, known_url, load_settings
from xmcloud.xm_cloud.client import Client

_STAND_IN = {"url": "http://localhost", "token": "unknown"}
"""For what is not known yet, while the rest is looked at."""


def answers(home: Path, given: dict[str, Any], *, ask: bool) -> dict[str, Any]:
    """All settings: what was given, else what a person says, else the default; None is left out.

    Raises NotUsable for a setting that has no default, and what `check_plane` does.
    """
    found = _plane(home, given, ask)
    usual = _usual(home, found)
    refuses = _refusals(usual) if ask else {}
    questions: list[tuple[str, str, str]] = [
        ("name", "Name of this worker", usual.name),
        ("pool", "Its pool", usual.pool),
        ("queues", "Queues to take from, the preferred first", ",".join(usual.queues)),
        ("slots", "Jobs at once", str(usual.slots)),
        ("gpus", "GPUs to use (all, none, or numbers as 0,1)", "all"),
        ("cache", "Folder of what jobs share", str(usual.cache)),
        ("checkpoints", "Folder of checkpoints", str(usual.checkpoints_folder)),
    ]
    for field, question, default in questions:
        if given[field] is not None:
            found[field] = given[field]
        elif ask:
            read = _checked(usual, field, refuses.get(field))
            found[field] = click.prompt(question, default=default, value_proc=read, err=True)
        else:
            found[field] = _parsed(field, default)
    return found


def _plane(home: Path, given: dict[str, Any], ask: bool) -> dict[str, Any]:
    """Where the control plane is, and the token for it; asked until both are good."""
    url = given["url"] or os.environ.get("XMCLOUD_URL") or known_url(home)
    told = given["token"] or os.environ.get("XMCLOUD_TOKEN", "")
    token = told or _token_in(home)
    while ask:
        if not given["url"]:
            read = _checked(_usual(home, _STAND_IN), "url")
            url = click.prompt("Control plane", default=url, value_proc=read, err=True)
        if not told and has_identity(str(url), home, os.environ):
            return {"url": url, "token": None}
        if not given["token"]:
            token = _ask_token(token)
        try:
            check_plane(str(url), token)
        except XmcloudError as error:
            if given["url"] and given["token"]:
                raise
            click.echo(f"Error: {error}", err=True)
        else:
            break
    if url and not told and has_identity(str(url), home, os.environ):
        return {"url": url, "token": None}
    missing = [
        *(["No control plane is known: give --url or XMCLOUD_URL."] if not url else []),
        *(["No token is known: give --token-file or XMCLOUD_TOKEN."] if not token else []),
    ]
    if missing:
        raise NotUsable(missing)
    return {"url": url, "token": token}


def _ask_token(known: str) -> str:
    if not known:
        return str(click.prompt("Token (not shown)", hide_input=True, err=True)).strip()
    question = "Token (not shown; empty: the one that is known)"
    said = click.prompt(question, default="", show_default=False, hide_input=True, err=True)
    return str(said).strip() or known


Refuses = Callable[[Any], str]
"""Why a value cannot be taken; '' if it can."""


def _refusals(settings: WorkerSettings) -> dict[str, Refuses]:
    """What the control plane knows of the answers."""
    with Client(settings.url, settings.identity().credentials) as client:
        queues, connected = names_in(client)
    return {
        "queues": lambda wanted: queue_problem(wanted, queues),
        "name": lambda name: name_problem(name, connected),
    }


def _checked(
    usual: WorkerSettings, field: str, refuses: Refuses | None = None
) -> Callable[[str], Any]:
    """Reads an answer; one that cannot be taken is asked for again."""

    def read(text: str) -> Any:
        value = _parsed(field, text)
        try:
            with parsing():
                WorkerSettings.model_validate({**dict(usual), field: value})
        except InvalidInput as error:
            raise click.UsageError(str(error)) from error
        if refuses and (problem := refuses(value)):
            raise click.UsageError(problem)
        return value

    return read


def _parsed(field: str, text: str) -> Any:
    match field:
        case "queues":
            return [name.strip() for name in text.split(",") if name.strip()]
        case "slots":
            return int(text) if text.strip().isdecimal() else text
        case "cache" | "checkpoints":
            return str(Path(text).expanduser().absolute())
    return text.strip()


def _usual(home: Path, plane: dict[str, Any]) -> WorkerSettings:
    """As they are by default, the environment's variables included."""
    return load_settings({**plane, "home": home}, os.environ)


def _token_in(home: Path) -> str:
    try:
        return (home / "token").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
