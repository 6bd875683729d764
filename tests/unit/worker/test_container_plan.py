"""What a container engine is asked for."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import draft, spec
from tests.support.clock import START
from xmcloud.core import lifecycle
from xmcloud.core.models import Peer
from xmcloud.core.specs import Argument, ContainerOptions, Image
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container_plan import ContainerPlan, Site, container_name, container_plan
from xmcloud.worker.setup import SetupFailed

FOLDER = AttemptFolder(Path("/attempts/one"), Path("/checkpoints/job"))
PREFIX = "eeeeeeeeeeeeeeee_1_"
PAIR = {"train": Peer(host="10.0.0.1", port=5001), "eval": Peer(host="10.0.0.1", port=5002)}
APART = {**PAIR, "eval": Peer(host="10.0.0.2", port=5002)}


def plan(
    options: ContainerOptions | None = None,
    *,
    peers: dict[str, Peer] | None = None,
    network: str = "bridge",
    gcs: Path | None = None,
    resources: dict[str, float] | None = None,
    arguments: tuple[Argument, ...] = (),
    addresses: dict[str, str] | None = None,
) -> ContainerPlan:
    image = Image(image="train", options=options or ContainerOptions())
    definition = spec(resources=resources, arguments=arguments).evolve(executable=image)
    queued = lifecycle.enqueued(draft(definition), "default", 1, "ann", START)
    job = lifecycle.claimed(queued, "w", "s" * 16, START, peers)
    return container_plan(job, image, FOLDER, Site(network, gcs, addresses or {}), ())


def test_a_job_that_is_alone_runs_on_the_engines_bridge_with_its_ports() -> None:
    options = plan(ContainerOptions(ports={80: 8080})).options
    assert options["ports"] == {"80/tcp": 8080}
    assert "network" not in options
    assert "network_mode" not in options


def test_jobs_of_a_group_on_one_machine_reach_each_other_by_name() -> None:
    address = Argument(value="%objectname(eval)%")
    options = plan(peers=PAIR, arguments=(address,)).options
    assert options["network"] == "xmcloud"
    assert options["command"] == [f"{PREFIX}eval:5002"]
    assert options["ports"] == {"5001/tcp": 5001}
    assert options["environment"]["XMCLOUD_PORT"] == "5001"
    assert f'"eval": "{PREFIX}eval:5002"' in options["environment"]["XMCLOUD_PEERS"]


@pytest.mark.parametrize(("network", "peers"), [("bridge", APART), ("host", PAIR), ("own", APART)])
def test_elsewhere_they_share_the_network_of_the_host_and_its_names(
    network: str, peers: dict[str, Peer]
) -> None:
    address = Argument(value="%objectname(eval)%")
    made = plan(peers=peers, network=network, arguments=(address,), addresses={"10.0.0.1": "::2"})
    assert made.options["network_mode"] == "host"
    assert made.options["command"] == [f"{peers['eval'].host}:5002"]
    assert made.options["extra_hosts"] == {
        f"{PREFIX}train": "::2",
        f"{PREFIX}eval": "::2" if peers is PAIR else "10.0.0.2",
    }


def test_a_network_of_peoples_own_is_for_groups_too() -> None:
    assert plan(network="own").options["network"] == "own"
    assert plan(network="own", peers=PAIR).options["network"] == "own"


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ({}, {}),
        ({"cpu": 1.5}, {"nano_cpus": 1_500_000_000}),
        ({"memory": 2.0**30}, {"mem_limit": 2**30, "memswap_limit": 2**30}),
        ({"gpu": 2}, {"device_requests": [{"count": 2, "capabilities": [["gpu"]]}]}),
        ({"a100": 1}, {"device_requests": [{"count": 1, "capabilities": [["gpu"]]}]}),
        ({"tpu-v4": 4}, {}),
        ({"disk": 1e9}, {}),
    ],
)
def test_resources_are_limits(resources: dict[str, float], asked: dict[str, Any]) -> None:
    options = plan(resources=resources).options
    limits = ("nano_cpus", "mem_limit", "memswap_limit", "device_requests")
    assert {name: options[name] for name in limits if name in options} == asked


def test_a_worker_without_a_folder_for_storage_says_so() -> None:
    assert plan(ContainerOptions(mount_gcs=True)).notes == [
        "Cloud Storage is not seen below /gcs: this worker has no gcs_root"
    ]
    with_storage = plan(ContainerOptions(mount_gcs=True), gcs=Path("/mnt/gcs"))
    assert with_storage.notes == []
    assert with_storage.options["mounts"][-1] == {
        "Type": "bind",
        "Source": "/mnt/gcs",
        "Target": "/gcs",
    }


def test_a_volume_has_an_absolute_path() -> None:
    with pytest.raises(SetupFailed, match="'data' is not an absolute path"):
        plan(ContainerOptions(volumes={"data": "/data"}))


def test_a_name_that_is_not_in_the_group_is_named() -> None:
    with pytest.raises(SetupFailed, match=r"train, eval"):
        plan(peers=PAIR, arguments=(Argument(value="%objectname(serve)%"),))


def test_names_that_an_engine_does_not_take_stay_different() -> None:
    assert container_name("e_1_train") == "e_1_train"
    names = {container_name(f"e_1_{name}") for name in ("a b", "a-b", "a/b", "ä b")}
    assert len(names) == 4
    assert all(name.isascii() and " " not in name and "/" not in name for name in names)
