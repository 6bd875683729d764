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
from xmcloud.worker.container_plan import (
    ContainerPlan,
    ImageFacts,
    Site,
    container_name,
    container_plan,
)
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
    gpus: tuple[str, ...] = (),
    command: tuple[str, ...] = (),
    **site: Any,
) -> ContainerPlan:
    image = Image(image="train", command=command, options=options or ContainerOptions())
    definition = spec(resources=resources, arguments=arguments).evolve(executable=image)
    queued = lifecycle.enqueued(draft(definition), "default", 1, "ann", START)
    job = lifecycle.claimed(queued, "w", "s" * 16, START, peers)
    place = Site(network, gcs, addresses or {}, **site)
    return container_plan(job, image, FOLDER, place, ImageFacts("sha256:1", ["run"], ["all"]), gpus)


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
        ({"tpu-v4": 4}, {}),
        ({"disk": 1e9}, {}),
    ],
)
def test_resources_are_limits(resources: dict[str, float], asked: dict[str, Any]) -> None:
    options = plan(resources=resources).options
    limits = ("nano_cpus", "mem_limit", "memswap_limit", "device_requests", "devices")
    assert {name: options[name] for name in limits if name in options} == asked


def test_it_has_the_gpus_that_it_was_allotted_and_no_others() -> None:
    two = plan(gpus=("GPU-1", "GPU-2")).options
    asked = {"device_ids": ["GPU-1", "GPU-2"], "capabilities": [["gpu"]]}
    assert two["device_requests"] == [asked]
    assert two["environment"]["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    none = plan().options
    assert "device_requests" not in none
    assert none["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_podman_knows_gpus_by_their_names_as_container_devices() -> None:
    options = plan(gpus=("GPU-1",), podman=(5, 4, 0)).options
    asked = {"driver": "cdi", "device_ids": ["nvidia.com/gpu=GPU-1"]}
    assert options["device_requests"] == [asked]


def test_a_podman_that_would_leave_gpus_out_is_refused() -> None:
    assert plan(podman=(5, 3, 2)).options["log_config"] == {"type": "json-file"}
    with pytest.raises(SetupFailed, match=r"Podman 5\.3\.2 gives .* Update it to 5\.4"):
        plan(gpus=("GPU-1",), podman=(5, 3, 2))


def test_it_runs_as_the_user_that_is_wanted() -> None:
    own = plan(user="1000:100", home="/xmcloud").options
    assert own["user"] == "1000:100"
    assert own["environment"]["HOME"] == "/xmcloud"
    of_the_image = plan().options
    assert "user" not in of_the_image
    assert "HOME" not in of_the_image["environment"]


def test_what_runs_is_known_before_it_starts() -> None:
    assert plan().argv == ["run", "all"]
    told = (Argument(value="some"),)
    assert plan(arguments=told).argv == ["run", "some"]
    assert plan(arguments=told, command=("walk",)).argv == ["walk", "some"]
    assert plan(command=("walk",)).argv == ["walk"]
    assert plan().image.digest == "sha256:1"


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
