"""Workers and commands of the release before against this API, and the reverse."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compatibility.releases import NOW, OLD_VERSION, Release, Site, shell
from tests.e2e.stack import until
from xmcloud.core.version import VERSION
from xmcloud.local.home import Home

LINES = 20_000
TRAIN = """
import json, os, sys
print("rate", sys.argv[1])
json.dump({"loss": 0.25}, open(os.environ["XMCLOUD_RESULTS"], "w"))
"""


@dataclass(frozen=True)
class Mixed:
    """An API of one release, where workers and commands are of the other."""

    site: Site
    api: Release
    other: Release
    folder: Path

    def gated(self, name: str) -> str:
        """A script that runs until `open` is called with that name."""
        gate = self.folder / name
        return f"echo {name} begins; until test -e {gate}; do sleep 0.05; done; echo {name} ends"

    def open(self, name: str) -> None:
        (self.folder / name).touch()


@pytest.fixture(scope="module", params=["this API", "API of the release before"])
def mixed(
    request: pytest.FixtureRequest,
    old: Release,
    cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mixed]:
    api, other = (NOW, old) if request.param == "this API" else (old, NOW)
    folder = tmp_path_factory.mktemp("mixed")
    site = Site(Home(folder / "home"), cache, lease=9)  # a heartbeat each three seconds
    try:
        site.control_plane(api)
        yield Mixed(site, api, other, folder)
    finally:
        site.close()


def test_a_worker_and_commands_of_the_other_release(mixed: Mixed) -> None:
    site = mixed.site
    worker = site.worker(mixed.other)
    (session,) = site.call("GET", "/workers")["sessions"]
    versions = (site.call("GET", "/health")["version"], session["version"])
    assert versions == ((VERSION, OLD_VERSION) if mixed.api is NOW else (OLD_VERSION, VERSION))
    experiment = site.experiment("work")
    (long,) = site.submit(experiment, [shell(mixed.gated("long"))])
    _assert_runs_a_sweep(site, experiment)
    _assert_stops(site, experiment)
    _assert_commands_work(site, mixed.other)
    if mixed.other is NOW:
        _assert_refuses_what_only_this_release_knows(site)
    until(lambda: site.session(session["id"])["renewed_at"] > session["renewed_at"], "a renewal")
    worker.kill()
    worker.wait()
    site.worker(mixed.other)
    mixed.open("long")
    done = site.over(long)
    assert (done["state"], len(done["attempts"])) == ("completed", 1)
    assert site.output(long) == "long begins\nlong ends\n"


def _assert_runs_a_sweep(site: Site, experiment: str) -> None:
    code = {"kind": "python_source", "archive": site.archive(train=TRAIN)}
    source = {**code, "entrypoint": ["python", "train.py", "0.5"]}
    python = {"name": "train", "spec": {"executable": source, "pool": "local"}}
    jobs = [shell(f"seq {LINES}"), shell("echo out; echo err >&2; exit 4"), python]
    numbers, broken, train = site.submit(experiment, *[[job] for job in jobs])
    assert site.over(numbers)["state"] == "completed"
    assert site.output(numbers) == "".join(f"{n}\n" for n in range(1, LINES + 1))
    assert site.over(broken)["reason"]["exit_code"] == 4
    assert sorted(site.output(broken).split()) == ["err", "out"]
    trained = site.over(train)
    assert (trained["state"], trained["results"]) == ("completed", {"loss": 0.25}), trained
    assert site.output(train).endswith("rate 0.5\n")


def _assert_stops(site: Site, experiment: str) -> None:
    (endless,) = site.submit(experiment, [shell("sleep 600")])
    site.until(endless, "running")
    site.call("POST", f"/jobs/{endless}/stop", json={"by": "ada"})
    assert site.over(endless)["state"] == "stopped"


def _assert_commands_work(site: Site, release: Release) -> None:
    run = json.loads(site.cli(release, "run", "--json", "--", "echo", "hello"))
    assert run["state"] == "completed"
    assert site.cli(release, "logs", run["id"]) == "hello\n"
    listed = json.loads(site.cli(release, "list", "--json"))["experiments"]
    assert run["experiment_id"] in [each["experiment"]["id"] for each in listed]
    assert "completed" in site.cli(release, "show", run["experiment_id"])
    site.cli(release, "clone", run["experiment_id"])
    site.cli(release, "queue", "pause", "low")
    assert "ant" in site.cli(release, "worker", "list")


def _assert_refuses_what_only_this_release_knows(site: Site) -> None:
    for words, status, what in (
        (["project", "list"], 3, "this"),
        (["run", "--project=vision", "--", "true"], 2, "body.project"),
    ):
        refused = site.cli(NOW, *words, status=status)
        assert f"does not know {what}. It seems to be of an earlier version" in refused
