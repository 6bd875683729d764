"""Which machine of Vertex AI a job gets."""

from collections.abc import Mapping

import pytest

from tests.support.builders import draft
from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.machine_sizes import MACHINE_TYPES
from xmcloud.core.machines import GIB, Machine, check_vertex_group, vertex_machine
from xmcloud.core.models import Job
from xmcloud.core.specs import (
    Command,
    ContainerOptions,
    Image,
    JobSpec,
    KubernetesOptions,
    PlatformOptions,
    Tensorboard,
    VertexOptions,
)


def needing(resources: Mapping[str, float], topology: str = "") -> JobSpec:
    return JobSpec(executable=Image(image="i"), resources=dict(resources), topology=topology)


@pytest.mark.parametrize(
    ("resources", "machine"),
    [
        ({}, "n1-standard-4"),
        ({"cpu": 1}, "n1-highmem-2"),
        ({"cpu": 2, "memory": 13 * GIB}, "n1-highmem-2"),
        ({"cpu": 2, "memory": 13 * GIB + 1}, "n1-standard-4"),
        ({"cpu": 4}, "n1-standard-4"),
        ({"cpu": 4.5}, "n1-standard-8"),
        ({"memory": 15 * GIB}, "n1-standard-4"),
        ({"memory": 16 * GIB}, "n1-highmem-4"),
        ({"cpu": 10}, "n1-highcpu-16"),
        ({"cpu": 10, "memory": 30 * GIB}, "n1-standard-16"),
        ({"cpu": 10, "memory": 100 * GIB}, "n1-highmem-16"),
        ({"cpu": 96, "memory": 624 * GIB}, "n1-highmem-96"),
    ],
)
def test_the_smallest_machine_that_fits(resources: Mapping[str, float], machine: str) -> None:
    assert vertex_machine(needing(resources)) == Machine(machine)


@pytest.mark.parametrize(
    ("name", "count", "machine"),
    [
        ("t4", 1, Machine("n1-standard-4", "NVIDIA_TESLA_T4", 1)),
        ("p4", 2, Machine("n1-standard-4", "NVIDIA_TESLA_P4", 2)),
        ("p100", 4, Machine("n1-standard-4", "NVIDIA_TESLA_P100", 4)),
        ("v100", 8, Machine("n1-standard-4", "NVIDIA_TESLA_V100", 8)),
        ("a100", 1, Machine("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1)),
        ("a100", 8, Machine("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8)),
        ("a100", 16, Machine("a2-megagpu-16g", "NVIDIA_TESLA_A100", 16)),
        ("a100-80gib", 4, Machine("a2-ultragpu-4g", "NVIDIA_A100_80GB", 4)),
        ("l4", 1, Machine("g2-standard-4", "NVIDIA_L4", 1)),
        ("l4-24th", 2, Machine("g2-standard-24", "NVIDIA_L4", 2)),
        ("l4", 8, Machine("g2-standard-96", "NVIDIA_L4", 8)),
        ("h100", 2, Machine("a3-highgpu-2g", "NVIDIA_H100_80GB", 2)),
        ("h100-mega", 8, Machine("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8)),
        ("h200", 8, Machine("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8)),
        ("b200", 8, Machine("a4-highgpu-8g", "NVIDIA_B200", 8)),
        ("gb200", 4, Machine("a4x-highgpu-4g", "NVIDIA_GB200", 4)),
        ("tpu-v2", 8, Machine("cloud-tpu", "TPU_V2", 8)),
        ("tpu-v3", 8, Machine("cloud-tpu", "TPU_V3", 8)),
        ("tpu-v5e", 1, Machine("ct5lp-hightpu-1t", tpu_topology="1x1")),
        ("tpu-v5e", 8, Machine("ct5lp-hightpu-8t", tpu_topology="2x4")),
        ("tpu-v5e", 16, Machine("ct5lp-hightpu-4t", tpu_topology="4x4")),
        ("tpu-v6e", 4, Machine("ct6e-standard-4t", tpu_topology="2x2")),
        ("tpu-v6e", 256, Machine("ct6e-standard-4t", tpu_topology="16x16")),
        ("tpu-v7x", 4, Machine("tpu7x-standard-4t", tpu_topology="2x2x1")),
    ],
)
def test_each_accelerator_comes_with_its_machine(name: str, count: int, machine: Machine) -> None:
    assert vertex_machine(needing({name: count})) == machine


ONLY_BY_EIGHT = {"h100-mega", "h200", "b200", "tpu-v2", "tpu-v3"}
NOT_OFFERED = {"local_gpu", "b300", "gb300", "vr200", "b40_48th", "tpu_v4", "tpu_v5p"}


@pytest.mark.parametrize("kind", sorted(xm.AcceleratorType, key=str))
def test_the_service_knows_every_accelerator_that_is_offered(kind: xm.ResourceType) -> None:
    from google.cloud.aiplatform_v1 import AcceleratorType

    name = "gpu" if kind is xm.ResourceType.LOCAL_GPU else kind.value.replace("_", "-")
    if kind.value in NOT_OFFERED:
        with pytest.raises(InvalidInput, match=f"resources is '{name}'.*cpu, memory.*a100.*tpu-v2"):
            vertex_machine(needing({name: 8}))
        return
    machine = vertex_machine(needing({name: 8 if name in ONLY_BY_EIGHT else 4}))
    assert machine.accelerator in AcceleratorType.__members__ or machine.tpu_topology
    assert machine.machine_type in MACHINE_TYPES


@pytest.mark.parametrize(
    ("resources", "machine"),
    [
        ({"t4": 1, "cpu": 16}, "n1-highcpu-16"),
        ({"t4": 2, "cpu": 32, "memory": 100 * GIB}, "n1-standard-32"),
        ({"v100": 2, "cpu": 16, "memory": 50 * GIB}, "n1-standard-16"),
        ({"p100": 4, "cpu": 64}, "n1-highcpu-64"),
        ({"l4": 1, "memory": 100 * GIB}, "g2-standard-32"),
        ({"l4": 1, "cpu": 9}, "g2-standard-12"),
    ],
)
def test_a_machine_has_the_rest_too(resources: Mapping[str, float], machine: str) -> None:
    assert vertex_machine(needing(resources)).machine_type == machine


@pytest.mark.parametrize(
    ("resources", "field", "expected"),
    [
        ({"cpu": 97}, r"resources\.cpu", "at most 96"),
        ({"memory": 625 * GIB}, r"resources\.memory", "n1-highmem-96"),
        ({"t4": 1, "cpu": 17}, r"resources\.cpu", "at most 16"),
        ({"v100": 1, "memory": 60 * GIB}, r"resources\.memory", "n1-highmem-8"),
        ({"a100": 1, "memory": 86 * GIB}, r"resources\.memory", "a2-highgpu-1g"),
        ({"t4": 3}, r"resources\.t4", "1, 2, 4"),
        ({"t4": 0.5}, r"resources\.t4", "1, 2, 4"),
        ({"l4": 3}, r"resources\.l4", "1, 2, 4, 8"),
        ({"h200": 1}, r"resources\.h200", "offers: 8"),
        ({"tpu-v3": 4}, r"resources\.tpu-v3", "offers: 8"),
        ({"t4": 1, "l4": 1}, "resources", "one accelerator"),
        ({"license": 1}, "resources", "cpu, memory, disk"),
        ({"disk": 64_001 * GIB}, r"resources\.disk", "at most"),
    ],
)
def test_what_is_not_offered_says_what_is(
    resources: Mapping[str, float], field: str, expected: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^{field} is .*{expected}"):
        vertex_machine(needing(resources))


@pytest.mark.parametrize(("size", "gb"), [(1, 100), (100 * GIB, 100), (100 * GIB + 1, 101)])
def test_the_boot_disk_holds_what_is_asked(size: float, gb: int) -> None:
    assert vertex_machine(needing({"disk": size})).disk_gb == gb


@pytest.mark.parametrize(
    ("name", "chips", "topology", "machine"),
    [
        ("tpu-v2", 8, "2x4", Machine("cloud-tpu", "TPU_V2", 8)),
        ("tpu-v5e", 8, "4x2", Machine("ct5lp-hightpu-8t", tpu_topology="2x4")),
        ("tpu-v5e", 1, "1", Machine("ct5lp-hightpu-1t", tpu_topology="1x1")),
        ("tpu-v7x", 4, "2x2", Machine("tpu7x-standard-4t", tpu_topology="2x2x1")),
        ("tpu-v7x", 16, "2x2x4", Machine("tpu7x-standard-4t", tpu_topology="2x2x4")),
        ("t4", 4, "4x2", Machine("n1-standard-4", "NVIDIA_TESLA_T4", 4)),
    ],
)
def test_a_shape_of_chips(name: str, chips: int, topology: str, machine: Machine) -> None:
    assert vertex_machine(needing({name: chips}, topology)) == machine


@pytest.mark.parametrize(
    ("name", "chips", "topology", "expected"),
    [("tpu-v5e", 16, "2x8", "4x4"), ("tpu-v2", 8, "2x2", "a shape of 8 chips")],
)
def test_other_shapes_are_refused(name: str, chips: int, topology: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=f"topology is '{topology}'.*{expected}"):
        vertex_machine(needing({name: chips}, topology))


def job(
    name: str = "train",
    *,
    replicas: int = 1,
    platform: PlatformOptions | None = None,
    options: ContainerOptions | None = None,
    **resources: float,
) -> Job:
    named = {name.replace("_", "-"): amount for name, amount in resources.items()}
    definition = needing(named).evolve(
        executable=Image(image="i", options=options or ContainerOptions()),
        replicas=replicas,
        platform=platform,
    )
    return draft(definition).evolve(name=name)


def board(name: str) -> VertexOptions:
    return VertexOptions(tensorboard=Tensorboard(name=name, output="gs://b/logs"))


def test_a_group_of_four_whose_first_has_one_replica() -> None:
    check_vertex_group([job(t4=1), *(job(replicas=9, t4=2) for _ in range(3))])


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([job()] * 5, "jobs is 5.*at most 4"),
        ([job(replicas=2)], "replicas is 2.*1 for train, the first"),
        ([job(), job(cpu=200)], r"resources\.cpu is 200"),
        ([job(tpu_v2=8), job()], "no TPU in a group"),
        ([job(platform=board("a")), job(platform=board("b"))], "tensorboard.*one for all"),
        ([job(platform=KubernetesOptions())], r"platform\.kind is 'kubernetes'.*vertex"),
        ([job(platform=VertexOptions(labels={"xmcloud-unit": "1"}))], "labels is 'xmcloud-unit'"),
        ([job(options=ContainerOptions(volumes={"/a": "/b"}))], r"options\.volumes"),
        ([job(options=ContainerOptions(ports={80: 80}))], r"options\.ports"),
        ([job(options=ContainerOptions(interactive=True))], r"options\.interactive"),
    ],
)
def test_what_no_group_can_be(jobs: list[Job], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_vertex_group(jobs)


def test_one_tensorboard_may_be_named_by_several() -> None:
    check_vertex_group([job(), job(platform=board("a")), job(platform=board("a"))])


def test_only_images() -> None:
    command = job().spec.evolve(executable=Command(command=("true",)))
    with pytest.raises(InvalidInput, match=r"executable\.kind is 'command'.*image"):
        check_vertex_group([job().evolve(spec=command)])
