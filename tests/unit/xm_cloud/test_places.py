import json
from pathlib import Path

import pytest

from xmcloud.core.errors import Unauthorized, Unavailable, XmcloudError
from xmcloud.xm_cloud.credentials.credentials import Fixed
from xmcloud.xm_cloud.places import Address, address, rehearsed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "control.json").write_text(
        json.dumps({"url": "http://127.0.0.1:1", "profile": "x"})
    )
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)
    return tmp_path


def place(home: Path, **environ: str) -> Address:
    return address({"XMCLOUD_HOME": str(home), **environ})


def test_the_control_plane_of_this_machine(home: Path) -> None:
    assert place(home) == Address("http://127.0.0.1:1", Fixed("secret"))


def test_the_environment_comes_first(home: Path) -> None:
    named = place(home, XMCLOUD_URL="https://x.example/", XMCLOUD_TOKEN="t")
    assert named == Address("https://x.example", Fixed("t"))
    assert place(home, XMCLOUD_TOKEN="t") == Address("http://127.0.0.1:1", Fixed("t"))


def test_the_token_of_this_machine_goes_nowhere_else(home: Path) -> None:
    with pytest.raises(Unauthorized, match="XMCLOUD_TOKEN"):
        place(home, XMCLOUD_URL="https://x.example")


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Address("http://x", Fixed("secret")))


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        pytest.param("control.json", None, Unavailable, id="nothing was started"),
        pytest.param("control.json", "{", Unavailable, id="no JSON"),
        pytest.param("control.json", "[]", Unavailable, id="no object"),
        pytest.param("control.json", '{"url": "ftp://x"}', Unavailable, id="no HTTP address"),
        pytest.param("token", None, Unauthorized, id="no token"),
    ],
)
def test_files_that_say_nothing(
    home: Path, name: str, text: str | None, error: type[XmcloudError]
) -> None:
    (home / name).unlink()
    if text is not None:
        (home / name).write_text(text)
    with pytest.raises(error) as raised:
        place(home)
    assert raised.value.remedy


def test_a_token_that_others_can_read_is_refused(home: Path) -> None:
    (home / "token").chmod(0o640)
    with pytest.raises(Unauthorized, match="chmod 600"):
        place(home)


def test_a_rehearsal_is_that_of_the_control_plane_of_this_machine(home: Path) -> None:
    here = "http://127.0.0.1:1"
    environ = {"XMCLOUD_HOME": str(home)}
    assert not rehearsed(environ)
    for known in (True, False):
        (home / "control.json").write_text(json.dumps({"url": here, "rehearsed": known}))
        assert rehearsed(environ) is known
        assert rehearsed({**environ, "XMCLOUD_URL": here}) is known
        assert not rehearsed({**environ, "XMCLOUD_URL": "https://x.example"})
    (home / "control.json").unlink()
    assert not rehearsed(environ)
