"""`xmcloud secret`, and secrets of `xmcloud run`."""

import json
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from tests.functions.commands.running import answer, xmcloud
from xmcloud.cli.main import cli
from xmcloud.xm_cloud.client import Client

_VALUE = "hunter22-hunter22"


def _names() -> list[str]:
    return [each["name"] for each in answer("secret", "list")["secrets"]]


def test_a_secret_is_set_listed_and_removed_and_never_shown(tmp_path: Path) -> None:
    said = xmcloud("secret", "set", "wandb", typed=f"{_VALUE}\n")
    assert "Secret wandb: set" in said.output
    file = tmp_path / "key.pem"
    file.write_text("first line\nsecond line\n")
    made = answer("secret", "set", "key", f"--from-file={file}")
    assert (made["name"], made["project"], made["set_by"]) == ("key", "default", "owner")
    listed = xmcloud("secret", "list")
    assert "wandb" in listed.output
    assert _names() == ["key", "wandb"]
    assert _VALUE not in said.output + listed.output + json.dumps(made)
    assert "Secret key: removed" in xmcloud("secret", "remove", "key").output
    assert _names() == ["wandb"]


def test_a_value_is_no_argument() -> None:
    said = xmcloud("secret", "set", "wandb", _VALUE, status=2)
    assert "unexpected extra argument" in said.output


@pytest.mark.parametrize(
    ("typed", "why"),
    [("abc\n", "fewer than 4 characters"), ("", "fewer than 4"), ("x" * 65_537, "65,537 bytes")],
)
def test_what_cannot_be_a_secret_is_told_without_it(typed: str, why: str) -> None:
    said = xmcloud("secret", "set", "other", typed=typed, status=2)
    assert why in said.output
    assert not typed.strip() or typed.strip() not in said.output


def test_projects_have_secrets_of_their_own() -> None:
    xmcloud("project", "create", "vision")
    xmcloud("secret", "set", "hf-token", "--project=vision", typed=_VALUE)
    assert answer("secret", "list", "--project=vision")["secrets"][0]["name"] == "hf-token"
    assert "hf-token" not in _names()
    said = xmcloud("secret", "remove", "hf-token", status=3)
    assert "Set it: xmcloud secret set hf-token" in said.output


def test_a_run_names_its_secrets(client: Client) -> None:
    xmcloud("secret", "set", "wandb", typed=_VALUE)
    run = ("run", "--secret", "WANDB_API_KEY=wandb", "--pool=other", "--detach")
    job = json.loads(xmcloud(*run, "--json", "--", "true").stdout)
    assert client.job(job["id"]).spec.secrets == {"WANDB_API_KEY": "wandb"}
    assert "WANDB_API_KEY=wandb" in xmcloud("show", job["id"]).output
    said = xmcloud("run", "--secret", "K=nowhere", "--detach", "--", "true", status=3)
    assert "Project default has no secret 'nowhere'" in said.output
    assert "write K=NAME" in xmcloud("run", "--secret", "K", "--", "true", status=2).output


def test_a_dry_run_shows_names() -> None:
    run = ("run", "--dry-run", "--secret", "WANDB_API_KEY=wandb")
    assert "WANDB_API_KEY=(secret wandb)" in xmcloud(*run, "--", "true").output
    (planned,) = json.loads(xmcloud(*run, "--json", "--", "true").stdout)["jobs"]
    assert planned["secrets"] == {"WANDB_API_KEY": "wandb"}
    assert "WANDB_API_KEY" not in planned["environment"]


@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        (["secret", "remove"], "wa", ["wandb"]),
        (["run", "--secret"], "WANDB_API_KEY=w", ["WANDB_API_KEY=wandb"]),
        (["run", "--secret"], "WANDB", []),
    ],
)
def test_names_are_completed(words: list[str], incomplete: str, found: list[str]) -> None:
    xmcloud("secret", "set", "wandb", typed=_VALUE)
    completion = ShellComplete(cli, {}, "xmcloud", "_XMCLOUD_COMPLETE")
    assert [item.value for item in completion.get_completions(words, incomplete)] == found
    assert isinstance(cli, click.Group)
