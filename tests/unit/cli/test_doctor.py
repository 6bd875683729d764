"""What `xmcloud doctor` makes of what it finds, without a control plane."""

import json
import os
import resource
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from xmcloud.cli.checks import worker
from xmcloud.cli.checks.check import Check, Verdict
from xmcloud.cli.checks.gpus import gpu_check
from xmcloud.cli.checks.line import Heard
from xmcloud.cli.checks.machine import (
    check_cache,
    check_disks,
    check_home,
    check_open_files,
    machine_settings,
)
from xmcloud.cli.checks.plane import clock_check, queue_checks, version_check, worker_checks
from xmcloud.cli.checks.programs import check_git, check_uv
from xmcloud.cli.checks.running import Found, Look, Probe, run
from xmcloud.cli.checks.telling import MARKS, PLAIN, lines_of, marks_for, summary
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.core.errors import Unavailable
from xmcloud.core.models import QueueState, Session
from xmcloud.core.protocol import QueueStatus
from xmcloud.worker.gpus import Driver, Gpu
from xmcloud.worker.settings import WorkerSettings

OK, WARNING, FAILED = Verdict
UNIT = "xmcloud-worker-ant.service"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that nothing was set up in, and that no variable leads away from."""
    for name in [each for each in os.environ if each.startswith("XMCLOUD_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("XMCLOUD_HOME", str(path))
    monkeypatch.setenv("XMCLOUD_CACHE", str(tmp_path / "cache"))
    return path


def settings(home: Path, **given: object) -> WorkerSettings:
    return machine_settings(os.environ).evolve(**given)


def verdicts(checks: Iterator[Check]) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in checks}


def secret(path: Path, mode: int) -> Path:
    path.write_text("{}")
    path.chmod(mode)
    return path


def probe(name: str, look: Look) -> Probe:
    return Probe("section", name, look, FAILED)


def names(probes: list[Probe], seconds: float = 10) -> list[str]:
    return [check.name for _, check in run(probes, seconds, lambda waiting: None)]


def test_checks_come_in_order_however_long_each_takes() -> None:
    last_came = threading.Event()

    def slow() -> Iterator[Found]:
        assert last_came.wait(10)
        yield Check.ok("first", "")
        yield probe("more", lambda: iter([Check.ok("second", "")]))
        yield probe("more", lambda: iter([Check.ok("third", "")]))

    def quick() -> Iterator[Found]:
        yield Check.ok("fourth", "")
        last_came.set()

    assert names([probe("slow", slow), probe("quick", quick)]) == [
        *("first", "second", "third", "fourth")
    ]


def test_what_hangs_keeps_nothing_from_ending() -> None:
    released, waited = threading.Event(), list[list[str]]()

    def hangs() -> Iterator[Found]:
        released.wait(60)
        yield Check.ok("late", "")

    try:
        found = run([probe("stuck", hangs)], 0, lambda names: waited.append(list(names)))
        ((section, check),) = found
    finally:
        released.set()
    assert (section, check.name, check.verdict) == ("section", "stuck", FAILED)
    assert check.detail == "no answer within 0 s"
    assert waited == [["stuck"]]


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (Unavailable("Nobody is there.", "Call."), "Nobody is there."),
        (PermissionError("not yours"), "cannot be looked at: not yours"),
        (KeyError(), "cannot be looked at: KeyError"),
        (ModuleNotFoundError("No module x"), "the installation of xmcloud is not whole: No"),
    ],
)
def test_a_mishap_is_a_check_that_failed(error: Exception, detail: str) -> None:
    def fails() -> Iterator[Found]:
        yield Check.ok("before", "")
        raise error

    (_, before), (_, check) = run([probe("fails", fails)], 10, lambda waiting: None)
    assert (before.verdict, check.name, check.verdict) == (OK, "fails", FAILED)
    assert check.detail.startswith(detail)
    assert check.remedy


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [(0, OK), (2, OK), (2.5, WARNING), (-2.5, WARNING), (10.5, FAILED), (-11, FAILED)],
)
def test_clocks_are_compared(ahead: float, verdict: Verdict) -> None:
    check = clock_check(Heard("1", 0.1, ahead))
    assert check.verdict is verdict
    assert bool(check.remedy) == (verdict is not OK)
    assert ("behind" in check.detail) == (ahead < -2)


def test_an_answer_without_a_date_tells_nothing_of_clocks() -> None:
    assert clock_check(Heard("1", 0.1, None)).verdict is OK


def test_other_versions_are_told() -> None:
    assert version_check("1.2", "1.2").verdict is OK
    other = version_check("1.3", "1.2")
    assert (other.verdict, other.remedy) == (WARNING, "pip install xmcloud==1.3")


def test_queues_that_are_paused_and_queues_that_are_missing() -> None:
    low = QueueStatus(
        queue=QueueState(name="low", priority=0, paused=True, created_at=NOW), waiting=1
    )
    high = QueueStatus(queue=QueueState(name="high", priority=1, created_at=NOW), waiting=1)
    ok, paused = queue_checks([high, low])
    assert (ok.verdict, paused.verdict) == (OK, WARNING)
    assert paused.detail == "is paused; 1 job in it"
    assert paused.remedy == "xmcloud queue resume low"
    assert verdicts(queue_checks([])) == {"Queues": FAILED}


def session(name: str, renewed_at: datetime) -> Session:
    return Session(
        id="a" * 16,
        worker=name,
        pool="gpu",
        queues=("low",),
        slots=1,
        host="box",
        opened_at=renewed_at,
        renewed_at=renewed_at,
        expires_at=renewed_at + timedelta(seconds=30),
    )


def test_workers_that_are_not_heard() -> None:
    there = session("ant", NOW - timedelta(seconds=20))
    silent = session("bee", NOW - timedelta(seconds=21))
    well, ill = worker_checks([there, silent], NOW)
    assert (well.verdict, well.detail) == (OK, "ant")
    assert (ill.name, ill.verdict, ill.detail) == (
        *("Worker bee", WARNING, "was not heard for 21 s"),
    )
    assert verdicts(worker_checks([], NOW)) == {"Workers": WARNING}


def test_gpus(tmp_path: Path) -> None:
    gpu = Gpu(0, "GPU-1", "NVIDIA A100", 40 * 10**9)
    there = gpu_check(Driver((gpu,), "12.4"), tmp_path)
    assert (there.verdict, there.detail) == (OK, "0 NVIDIA A100; CUDA 12.4")
    assert gpu_check(Driver(trouble="version mismatch"), tmp_path).verdict is FAILED
    assert gpu_check(Driver(), tmp_path).detail == "none"
    for number, (vendor, kind) in enumerate(
        [("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x8086", "0x030000")]
    ):
        device = tmp_path / str(number)
        device.mkdir()
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    without_driver = gpu_check(Driver(), tmp_path)
    assert without_driver.verdict is WARNING
    assert without_driver.detail.startswith("1 of NVIDIA on the bus")


def test_a_home_that_others_can_read(home: Path) -> None:
    assert verdicts(check_home(home)) == {"Home": OK}
    home.chmod(0o755)
    secret(home / "token", 0o640)
    secret(home / "worker.env", 0o644)
    secret(home / "worker.json", 0o600)
    found = {check.name: check for check in check_home(home)}
    assert {name: check.verdict for name, check in found.items()} == {
        "Home": WARNING,
        "File token": FAILED,
        "File worker.env": WARNING,
    }
    remedy = f"chown $USER {home / 'token'} && chmod 600 {home / 'token'}"
    assert found["File token"].remedy == remedy


def test_a_home_that_is_not_there_or_a_file(home: Path) -> None:
    assert verdicts(check_home(home / "new")) == {"Home": OK}
    assert verdicts(check_home(secret(home / "x", 0o600))) == {"Home": FAILED}
    assert verdicts(check_home(home / "x" / "below")) == {"Home": FAILED}


def test_disks_with_less_than_the_floor(home: Path) -> None:
    disks = {"Disk of the home", "Disk of the cache"}
    assert verdicts(check_disks(settings(home, disk_floor_bytes=0))) == dict.fromkeys(disks, OK)
    full = list(check_disks(settings(home, disk_floor_bytes=2**62)))
    assert {check.name: check.verdict for check in full} == dict.fromkeys(disks, FAILED)
    assert str(home) in full[0].detail


def test_a_cache_above_its_limit(home: Path, tmp_path: Path) -> None:
    blobs = tmp_path / "cache" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "a").write_bytes(b"12345")
    assert verdicts(check_cache(settings(home, cache_limit_bytes=5))) == {"Cache": OK}
    assert verdicts(check_cache(settings(home, cache_limit_bytes=4))) == {"Cache": WARNING}


def test_few_open_files() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, limits[1]))
        (few,) = check_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (few.verdict, few.remedy) == (WARNING, "ulimit -n 1024")


def program(folder: Path, name: str, prints: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{prints}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("git", "expected"),
    [
        ("echo git version 2.34.9", {"git": WARNING}),
        ("echo git version", {"git": WARNING}),
        ("exit 1", {"git": WARNING}),
        (
            'test "$1" = lfs && exit 1; echo "git version 2.35.0 (a vendor)"',
            {"git": OK, "git-lfs": WARNING},
        ),
        (
            'test "$1" = lfs && echo "git-lfs/3.3.0 (x)" || echo git version 10.1',
            {"git": OK, "git-lfs": OK},
        ),
    ],
)
def test_git(
    git: str, expected: dict[str, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "git", git)
    program(tmp_path, "dnf", "exit 1")
    found = list(check_git())
    assert {check.name: check.verdict for check in found} == expected
    for check in found:
        if check.verdict is WARNING:
            assert check.remedy == f"sudo dnf install {check.name}"


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = check_git()
    assert (check.verdict, check.remedy) == (WARNING, "Install the package git.")


def test_uv() -> None:
    (check,) = check_uv()
    assert check.verdict is OK
    assert check.detail[0].isdigit()


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("{", "does not hold a JSON object"),
        ('{"slots": 0}', "Setting 'slots' (0)"),
        ('{"slots": 1, "nonsense": 2}', "Setting 'nonsense' (2)"),
    ],
)
def test_the_first_mistake_in_the_settings(home: Path, text: str, detail: str) -> None:
    assert list(worker.check_worker(os.environ)) == []
    secret(home / "token", 0o600)
    value = text if text == "{" else json.dumps({"url": "http://x", **json.loads(text)})
    (home / "worker.json").write_text(value)
    (check,) = worker.check_worker(os.environ)
    assert (check.name, check.verdict) == ("Settings", FAILED)
    assert detail in check.detail
    assert str(home / "worker.json") in check.remedy


def test_settings_that_cannot_be_read(home: Path) -> None:
    (home / "worker.json").mkdir()
    assert verdicts(worker.check_worker(os.environ)) == {"Settings": FAILED}


def test_settings_that_are_well(home: Path) -> None:
    secret(home / "token", 0o600)
    (home / "worker.json").write_text('{"url": "http://x", "name": "ant"}')
    first, *_ = worker.check_worker(os.environ)
    assert (first.name, first.verdict) == ("Settings", OK)


@pytest.mark.parametrize(
    ("state", "verdict", "remedy"),
    [
        ("active", OK, ""),
        ("failed", FAILED, f"journalctl --user -eu {UNIT}"),
        ("inactive", WARNING, f"enable --now {UNIT}"),
        (None, WARNING, "xmcloud worker install --now"),
    ],
)
def test_the_service(
    home: Path, monkeypatch: pytest.MonkeyPatch, state: str | None, verdict: Verdict, remedy: str
) -> None:
    """As systemd would say."""
    secret(home / "token", 0o600)
    (home / "worker.json").write_text('{"url": "http://x", "name": "ant"}')
    monkeypatch.setattr(worker, "has_systemd", lambda: True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("PATH", str(home))
    if state:
        units = home / "systemd" / "user"
        units.mkdir(parents=True)
        (units / UNIT).touch()
        program(home, "systemctl", f'test "$*" = "--user is-active {UNIT}" && echo {state}')
    _, service = worker.check_worker(os.environ)
    assert (service.name, service.verdict) == ("Service", verdict)
    assert remedy in service.remedy


def test_how_it_is_told() -> None:
    check = Check.warning("git", "is old", "Renew it.")
    assert marks_for("utf-8") is MARKS
    assert marks_for("ascii") is marks_for(None) is PLAIN
    first, second = lines_of(check, PLAIN)
    plain, remedy = click.unstyle(first), click.unstyle(second)
    assert plain.index("is old") == remedy.index("Renew it.")
    assert lines_of(Check.ok("git", "2.50"), MARKS)[0].endswith("git                2.50")
    fine, bad = Check.ok("a", ""), Check.failed("b", "", "")
    assert summary([fine]) == "All is well."
    assert summary([fine, check]) == "1 of 2 needs attention: 1 warning."
    assert summary([check, check, bad]) == "3 of 3 need attention: 1 failed, 2 warnings."


def doctor(*words: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *words])


@pytest.mark.usefixtures("home")
def test_without_a_control_plane() -> None:
    told = doctor()
    assert told.exit_code == ExitCode.UNWELL
    assert "xmcloud up" in told.stdout
    assert "1 failed" in told.stdout.splitlines()[-1]
    document = json.loads(doctor("--json").stdout)
    assert document["verdict"] == "failed"
    sections = {each["name"]: each["checks"] for each in document["sections"]}
    assert list(sections) == ["This machine", "Control plane"]
    (address,) = sections["Control plane"]
    assert (address["name"], address["verdict"]) == ("Address", "failed")


def test_a_home_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_HOME", "~nobody-of-that-name/x")
    told = doctor()
    assert told.exit_code == ExitCode.USAGE
    assert told.stderr.startswith("Error: The folder ~nobody-of-that-name/x cannot be used")
