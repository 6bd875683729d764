"""The systemd unit of a worker."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.cli.worker_unit import Unit, has_systemd, unit_of
from xmcloud.worker.settings import load_settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a worker that is set up."""
    home = tmp_path / "100% my $HOME"
    home.mkdir()
    (home / "worker.json").write_text('{"url": "http://plane", "name": "ant"}')
    (home / "token").write_text("secret")
    (home / "token").chmod(0o600)
    monkeypatch.setenv("XMCLOUD_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XMCLOUD_TOKEN", "of-another-control-plane")
    return home


def unit(home: Path, *, system: bool = False) -> Unit:
    settings = load_settings({"home": home, "cache": "/c"}, {})
    return unit_of(settings, {"PATH": "/bin"}, system=system)


def install(*options: str, status: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["worker", "install", *options])
    assert result.exit_code == status, result.output
    return result


def lines(unit: Unit) -> list[str]:
    return [line for line in unit.text.splitlines() if line and line[0] not in "#["]


def test_a_unit_of_a_user(home: Path) -> None:
    escaped = str(home).replace("%", "%%")
    assert lines(unit(home)) == [
        "Description=xmcloud worker ant",
        "StartLimitIntervalSec=0",
        f"ExecStart={sys.executable} -P -m xmcloud.cli worker start --name=ant",
        f"WorkingDirectory={escaped}",
        f'Environment="XMCLOUD_HOME={escaped}" XMCLOUD_CACHE=/c PATH=/bin',
        f"EnvironmentFile=-{escaped}/worker.env",
        "Restart=on-failure",
        "RestartSec=5",
        "RestartPreventExitStatus=2 5",
        "KillMode=process",
        "TimeoutStopSec=660",
        "WantedBy=default.target",
    ]


def test_a_unit_of_the_machine_runs_as_the_owner_of_the_home(home: Path) -> None:
    made = unit(home, system=True)
    assert made.path == Path("/etc/systemd/system/xmcloud-worker-ant.service")
    assert f"User={home.owner()}" in lines(made)
    assert "After=network-online.target" in lines(made)
    assert "WantedBy=multi-user.target" in lines(made)
    assert [command[:2] for command in made.commands()] == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable"],
    ]


@pytest.mark.parametrize("system", [False, True])
def test_systemd_understands_it(home: Path, tmp_path: Path, system: bool) -> None:
    if shutil.which("systemd-analyze") is None:
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail("systemd-analyze: apt-get install systemd", pytrace=False)
        pytest.skip("systemd-analyze: apt-get install systemd")
    made = unit(home, system=system)
    path = tmp_path / made.name
    path.write_text(made.text)
    verify = ["systemd-analyze", "verify", "--man=no", str(path)]
    said = subprocess.run(verify, capture_output=True, text=True, check=False)
    about = [line for line in said.stderr.splitlines() if made.name in line]
    assert (about, said.returncode) == ([], 0)


def test_it_is_written_once_and_says_how_to_start_it(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "config/systemd/user/xmcloud-worker-ant.service"
    first = install().stdout
    assert f"Wrote {path}" in first
    assert "  systemctl --user enable --now xmcloud-worker-ant.service" in first
    assert "  loginctl enable-linger" in first
    assert "of-another-control-plane" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    assert f"There already: {path}" in install().stdout


def test_one_that_differs_stays_and_the_difference_is_shown(home: Path, tmp_path: Path) -> None:
    install()
    (path,) = (tmp_path / "config/systemd/user").iterdir()
    edited = path.read_text().replace("RestartSec=5", "RestartSec=99")
    path.write_text(edited)
    refused = install(status=ExitCode.REFUSED).stderr
    assert "-RestartSec=99\n+RestartSec=5" in refused
    assert path.read_text() == edited


def test_a_worker_that_is_not_set_up_is_not_installed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMCLOUD_URL", "http://elsewhere")
    (home / "token").unlink()
    assert "no token in" in install(status=ExitCode.USAGE).stderr
    (home / "worker.json").unlink()
    assert "xmcloud worker init" in install(status=ExitCode.USAGE).stderr
    assert not (tmp_path / "config").exists()


def test_now_needs_systemd(home: Path, tmp_path: Path) -> None:
    if has_systemd():
        pytest.skip("a machine without systemd: here it would start a worker")
    refused = install("--now", status=ExitCode.UNREACHABLE).stderr
    assert "systemd does not run on this machine. Leave out --now." in refused
    assert not (tmp_path / "config").exists()
