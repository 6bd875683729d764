"""Where a worker's settings come from, and which wins."""

import json
import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from xmcloud.worker.gpu_choice import GpuChoice
from xmcloud.worker.settings import InvalidSettings, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "control.json").write_text('{"url": "http://127.0.0.1:1", "profile": "embedded"}')
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"XMCLOUD_HOME": str(home), **more}


def test_a_worker_of_this_machine_needs_no_settings(home: Path) -> None:
    settings = load_settings({}, environment(home))
    assert settings.url == "http://127.0.0.1:1"
    assert settings.token == SecretStr("secret")
    assert settings.pool == "local"
    assert settings.queues == ("high", "default", "low")
    assert "secret" not in repr(settings)


def test_a_flag_wins_over_the_environment_and_that_over_the_file(home: Path) -> None:
    (home / "worker.json").write_text(json.dumps({"pool": "file", "slots": 2, "name": "file"}))
    variables = environment(home, XMCLOUD_WORKER_SLOTS="3", XMCLOUD_WORKER_NAME="environment")
    settings = load_settings({"name": "flag", "slots": None}, variables)
    assert (settings.pool, settings.slots, settings.name) == ("file", 3, "flag")


def test_the_environment_wins_over_what_runs_here(home: Path) -> None:
    variables = environment(home, XMCLOUD_URL="https://away", XMCLOUD_TOKEN="other")
    settings = load_settings({}, variables)
    assert (settings.url, settings.token) == ("https://away", SecretStr("other"))


def test_queues_are_separated_by_commas(home: Path) -> None:
    assert load_settings({"queues": "a,b"}, environment(home)).queues == ("a", "b")


def test_what_containers_and_groups_need_has_variables(home: Path) -> None:
    variables = environment(
        home,
        XMCLOUD_WORKER_ADDRESS="10.0.0.1",
        XMCLOUD_WORKER_CONTAINER_HOST="unix:///run/podman.sock",
        XMCLOUD_WORKER_CONTAINER_NETWORK="host",
        XMCLOUD_WORKER_GCS_ROOT="/mnt/gcs",
    )
    settings = load_settings({}, variables)
    assert settings.address == "10.0.0.1"
    assert settings.container_host == "unix:///run/podman.sock"
    assert settings.container_network == "host"
    assert settings.gcs_root == Path("/mnt/gcs")
    assert load_settings({"address": "10.0.0.2"}, variables).address == "10.0.0.2"


@pytest.mark.parametrize(
    ("flags", "variables", "file", "gpus"),
    [
        ({}, {}, {}, None),
        ({}, {}, {"gpus": "1,2"}, ("1", "2")),
        ({}, {}, {"gpus": [1, 2]}, ("1", "2")),
        ({}, {}, {"gpus": 0}, ("0",)),
        ({}, {"NVIDIA_VISIBLE_DEVICES": "GPU-ab"}, {"gpus": "1"}, ("GPU-ab",)),
        ({}, {"NVIDIA_VISIBLE_DEVICES": ""}, {"gpus": "1"}, ()),
        (
            {},
            {"NVIDIA_VISIBLE_DEVICES": "GPU-ab", "XMCLOUD_WORKER_GPUS": "3"},
            {"gpus": "1"},
            ("3",),
        ),
        ({}, {"XMCLOUD_WORKER_GPUS": ""}, {"gpus": "1"}, ()),
        ({"gpus": "all"}, {"XMCLOUD_WORKER_GPUS": "3"}, {"gpus": "1"}, None),
        ({"gpus": "none"}, {}, {"gpus": "1"}, ()),
    ],
)
def test_gpus_are_chosen_by_who_says_it_nearest(
    home: Path,
    flags: dict[str, object],
    variables: dict[str, str],
    file: dict[str, object],
    gpus: tuple[str, ...] | None,
) -> None:
    (home / "worker.json").write_text(json.dumps(file))
    settings = load_settings(flags, environment(home, **variables))
    assert settings.gpus == GpuChoice(gpus)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"slots": 0}, "slots"),
        ({"name": "Not A Slug"}, "name"),
        ({"queues": "a,,b"}, "queues"),
        ({"url": "ftp://x"}, "url"),
        ({"queue": "pubsub"}, "GOOGLE_CLOUD_PROJECT"),
        ({"sluts": 1}, "sluts"),
        ({"gpus": "two"}, "gpus.*'two'.*numbers"),
        ({"gpus": "MIG-1"}, "gpus.*MIG"),
    ],
)
def test_a_wrong_setting_is_named(home: Path, flags: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        load_settings(flags, environment(home))


def test_without_a_control_plane_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="xmcloud up"):
        load_settings({}, environment(tmp_path))


def test_a_token_that_others_can_read_is_refused(home: Path) -> None:
    (home / "token").chmod(0o640)
    with pytest.raises(InvalidSettings, match="chmod 600"):
        load_settings({}, environment(home))


@pytest.mark.skipif(os.getuid() != 0, reason="needs to give a file away (root)")
def test_a_token_of_somebody_else_is_refused(home: Path) -> None:
    os.chown(home / "token", 1234, -1)
    with pytest.raises(InvalidSettings, match="another user"):
        load_settings({}, environment(home))
