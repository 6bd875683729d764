"""Who is signed in elsewhere has a control plane of this machine, too."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functions.commands.running import answer, xmcloud
from xmcloud.local.control import LocalPlane, ensure_up
from xmcloud.local.home import Home
from xmcloud.xm_cloud.credentials.login import Login, Method, keep_login

AWAY = "http://127.0.0.1:1"


@pytest.fixture
def here(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPlane]:
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("XMCLOUD_CACHE", str(machine / "cache"))
    home = machine / "home"
    home.mkdir(mode=0o700)
    keep_login(home, Login(AWAY, Method.TOKEN, token="xmc_away"))
    plane = LocalPlane(Home(home), lambda _: None)
    yield plane
    plane.down()


def test_commands_go_away_and_the_worker_of_this_machine_stays(
    here: LocalPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_up(lambda _: None)
    assert here.running() == {}
    said = xmcloud("up", "--slots", "1")
    control = here.home.control()
    assert control is not None
    assert f"commands here go to {AWAY}, unless XMCLOUD_URL={control.url}" in said.stderr
    assert answer("status", status=4)["url"] == AWAY
    assert here.complete()
    monkeypatch.setenv("XMCLOUD_URL", control.url)
    assert answer("whoami")["name"] == "owner"
    assert [each["worker"] for each in answer("worker", "list")["sessions"]] == ["local"]
