"""The files by which clients, workers and `xmcloud up` find each other."""

import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from xmcloud.core.errors import Unauthorized
from xmcloud.local.home import Control, Home, UnusableHome
from xmcloud.xm_cloud.credentials.credentials import Fixed
from xmcloud.xm_cloud.places import Address, address


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "a" / "home")
    made.prepare()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_the_token_are_private(home: Home) -> None:
    token = home.path / "token"
    assert (mode(home.path), mode(token)) == (0o700, 0o600)
    assert len(token.read_text()) >= 43
    assert {path.name for path in home.path.iterdir()} == {"token"}


def test_an_open_folder_is_closed(home: Home) -> None:
    home.path.chmod(0o755)
    home.prepare()
    assert mode(home.path) == 0o700


def test_the_token_stays_and_homes_have_different_ones(home: Home, tmp_path: Path) -> None:
    before = (home.path / "token").read_text()
    home.prepare()
    assert (home.path / "token").read_text() == before
    other = Home(tmp_path / "other")
    other.prepare()
    assert (other.path / "token").read_text() != before


@pytest.mark.parametrize("readable", [0o644, 0o640, 0o604, 0o620])
def test_a_token_that_others_can_use_is_refused(home: Home, readable: int) -> None:
    token = home.path / "token"
    token.chmod(readable)
    with pytest.raises(Unauthorized, match=f"chmod 600 {token}"):
        home.prepare()


def test_clients_find_what_is_announced(home: Home) -> None:
    assert home.control() is None
    control = Control("http://127.0.0.1:4567", "embedded")
    home.announce(control)
    assert home.control() == control
    found = address({"XMCLOUD_HOME": str(home.path)})
    assert found == Address(control.url, Fixed((home.path / "token").read_text()))
    home.withdraw()
    home.withdraw()
    assert home.control() is None
    assert home.last_port() == 4567


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"url": 3}', '{"url": "x", "profile": "embedded"}']
)
def test_an_address_that_makes_no_sense_counts_as_none(home: Home, text: str) -> None:
    (home.path / "control.json").write_text(text)
    assert home.control() is None


@pytest.mark.parametrize("text", ["", "many", "0", "70000"])
def test_a_port_that_makes_no_sense_counts_as_none(home: Home, text: str) -> None:
    (home.path / "port").write_text(text)
    assert home.last_port() is None


def test_the_lock_can_be_taken_again(home: Home) -> None:
    for _ in range(2):
        with home.locked(nullcontext()):
            pass


def test_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableHome, match="it is a file"):
        Home(tmp_path / "file")
    with pytest.raises(UnusableHome, match="Not a directory"):
        Home(tmp_path / "file" / "home").prepare()
