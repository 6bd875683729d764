"""Which GPUs a machine has, and which of them a worker uses."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import (
    GIB,
    FakeNvml,
    FakeNvmlError,
    NoLibrary,
    NotLoaded,
    build_library,
    gpu,
)
from xmcloud import xm
from xmcloud.core.resources import GPU_TYPES, is_gpu
from xmcloud.worker.gpu_choice import GpuChoice, of_nvidia, visible_to_cuda
from xmcloud.worker.gpus import Driver, Gpu, GpuMeter, ask_driver, chosen
from xmcloud.worker.settings import InvalidSettings
from xmcloud.xm_cloud.executors import resource_name

FOUR = tuple(gpu(index) for index in range(4))
ASK = """
import dataclasses, json
from xmcloud.worker.gpus import ask_driver
print(json.dumps(dataclasses.asdict(ask_driver())))
"""
MEASURE = """
import json
from xmcloud.worker.gpus import GpuMeter, ask_driver
print(json.dumps(GpuMeter(ask_driver()).sample()))
"""


@pytest.fixture
def compiler() -> None:
    if shutil.which("g++"):
        return
    how = "a C++ compiler: apt-get install g++"
    if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
        pytest.fail(how, pytrace=False)
    pytest.skip(how)


def asked(environment: dict[str, str], question: str = ASK) -> Any:
    """What a process of its own hears from the library that it finds."""
    done = subprocess.run(
        [sys.executable, "-c", question],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


@pytest.mark.usefixtures("compiler")
def test_the_driver_s_library_tells_the_gpus_and_its_cuda(tmp_path: Path) -> None:
    a100, t4 = gpu(0), gpu(1, "Tesla T4", 16 * GIB)
    answer = asked(build_library(tmp_path, [a100, t4], cuda=12080))
    assert answer["cuda"] == "12.8"
    assert [Gpu(**each) for each in answer["gpus"]] == [a100, t4]


@pytest.mark.usefixtures("compiler")
def test_a_driver_that_does_not_answer_says_why(tmp_path: Path) -> None:
    answer = asked(build_library(tmp_path, FOUR, refuses=18))
    assert answer["gpus"] == []
    assert "mismatch" in str(answer["trouble"])


@pytest.mark.usefixtures("compiler")
def test_the_driver_s_library_tells_how_busy_the_gpus_are(tmp_path: Path) -> None:
    assert asked(build_library(tmp_path, FOUR[:2]), MEASURE) == [[25.0, 10 * GIB]] * 2


def test_a_gpu_that_is_lost_is_not_busy() -> None:
    nvml = FakeNvml(FOUR, broken=[1])
    assert GpuMeter(ask_driver(nvml), nvml).sample() == [
        (25.0, 10 * GIB), (0.0, 0.0), (75.0, 10 * GIB), (100.0, 10 * GIB),
    ]  # fmt: skip


def test_without_a_driver_nothing_is_asked() -> None:
    assert GpuMeter(Driver(), FakeNvml(refuses=NoLibrary())).sample() == []


@pytest.mark.parametrize("why", [NoLibrary(), NotLoaded()])
def test_no_driver_is_no_gpu_and_no_trouble(why: FakeNvmlError) -> None:
    assert ask_driver(FakeNvml(FOUR, refuses=why)) == Driver()


def test_a_gpu_that_is_lost_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    nvml = FakeNvml(FOUR, broken=[1])
    assert [each.index for each in ask_driver(nvml).gpus] == [0, 2, 3]
    assert "GPU 1 is not used" in caplog.text
    assert nvml.open == 0


@pytest.mark.parametrize(("number", "written"), [(12040, "12.4"), (13000, "13.0"), (9020, "9.2")])
def test_cuda_has_a_version_as_it_is_written(number: int, written: str) -> None:
    assert ask_driver(FakeNvml(FOUR, cuda=number)).cuda == written


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("NVIDIA A100-SXM4-40GB", ("a100", "gpu")),
        ("NVIDIA A100-PCIE-40GB", ("a100", "gpu")),
        ("NVIDIA A100-SXM4-80GB", ("a100-80gib", "a100", "gpu")),
        ("NVIDIA A100 80GB PCIe", ("a100-80gib", "a100", "gpu")),
        ("NVIDIA H100 80GB HBM3", ("h100", "gpu")),
        ("NVIDIA H100 NVL", ("h100", "gpu")),
        ("NVIDIA H200", ("h200", "gpu")),
        ("NVIDIA GH200 480GB", ("gpu",)),
        ("NVIDIA B200", ("b200", "gpu")),
        ("NVIDIA GB200", ("gb200", "gpu")),
        ("NVIDIA L4", ("l4", "l4-24th", "gpu")),
        ("NVIDIA L40S", ("gpu",)),
        ("Tesla T4", ("t4", "gpu")),
        ("Tesla P4", ("p4", "gpu")),
        ("Tesla P40", ("gpu",)),
        ("Tesla P100-PCIE-16GB", ("p100", "gpu")),
        ("Tesla V100-SXM2-16GB", ("v100", "gpu")),
        ("Tesla V100S-PCIE-32GB", ("v100", "gpu")),
        ("NVIDIA RTX A1000", ("gpu",)),
        ("NVIDIA GeForce RTX 4090", ("gpu",)),
    ],
)
def test_a_gpu_counts_under_the_names_that_jobs_ask_for(name: str, kinds: Sequence[str]) -> None:
    assert gpu(0, name).kinds == kinds
    assert all(is_gpu(kind) for kind in kinds)


def test_every_gpu_that_a_job_can_ask_for_is_known() -> None:
    assert {resource_name(kind) for kind in xm.GpuType} | {"l4"} == GPU_TYPES
    assert is_gpu(resource_name(xm.ResourceType.LOCAL_GPU))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("all", None),
        (" ALL ", None),
        ("", ()),
        ("none", ()),
        ("void", ()),
        ("0", ("0",)),
        ("1, 03", ("1", "3")),
        ("GPU-8932f937-d72c", ("GPU-8932f937-d72c",)),
        ("gpu-ab,2", ("gpu-ab", "2")),
    ],
)
def test_gpus_are_named(text: str, names: tuple[str, ...] | None) -> None:
    assert GpuChoice.parse(text) == GpuChoice(names)


@pytest.mark.parametrize("text", ["all,0", "0,", "-1", "x", "GPU-", "0-3", "1.5", "none,1"])
def test_what_names_no_gpu_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="'all', 'none', or numbers"):
        GpuChoice.parse(text)


@pytest.mark.parametrize("text", ["MIG-a1b2", "MIG-GPU-ab/1/0", "0:1", "0,mig-1"])
def test_a_part_of_a_gpu_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="MIG"):
        GpuChoice.parse(text)


@pytest.mark.parametrize(
    ("text", "contained", "meant"),
    [
        ("2,3", False, "2,3"),
        ("2, 3", True, "all"),
        ("void", True, "all"),
        ("void", False, "void"),
        ("none", True, "none"),
        ("", True, ""),
        ("GPU-ab", True, "GPU-ab"),
        ("all", True, "all"),
    ],
)
def test_in_a_container_the_host_s_numbers_were_applied(
    text: str, contained: bool, meant: str
) -> None:
    assert of_nvidia(text, contained=contained) == meant


@pytest.mark.parametrize(
    ("text", "names"),
    [("0,1", ("0", "1")), ("", ()), ("-1", ()), ("1,-1,0", ("1",)), ("NoDevFiles", ())],
)
def test_cuda_s_variable_ends_at_no_device(text: str, names: tuple[str, ...]) -> None:
    assert visible_to_cuda({"CUDA_VISIBLE_DEVICES": text}) == GpuChoice(names)


@pytest.mark.parametrize(
    ("choice", "cuda", "used"),
    [
        ("all", None, [0, 1, 2, 3]),
        ("none", None, []),
        ("3,1", None, [1, 3]),
        ("1,1", None, [1]),
        ("GPU-00000002", None, [2]),
        ("all", "2,0", [0, 2]),
        ("all", "", []),
        ("all", "-1", []),
        ("0,1", "1,2", [1]),
        ("none", "7", []),
    ],
)
def test_a_worker_uses_what_is_chosen_and_visible(
    choice: str, cuda: str | None, used: list[int]
) -> None:
    environment = {} if cuda is None else {"CUDA_VISIBLE_DEVICES": cuda}
    found = chosen(Driver(FOUR), GpuChoice.parse(choice), environment)
    assert [each.index for each in found] == used


@pytest.mark.parametrize(
    ("choice", "cuda", "said"),
    [
        ("4", None, "'4'.*no such GPU.*3 NVIDIA A100"),
        ("GPU-ff", None, "no such GPU"),
        ("GPU-0000000", None, "fits 4 GPUs"),
        ("0", "1", "hides"),
        ("all", "9", "CUDA_VISIBLE_DEVICES.*'9'"),
        ("all", "MIG-1", "CUDA_VISIBLE_DEVICES.*MIG"),
    ],
)
def test_a_gpu_that_is_not_there_is_named(choice: str, cuda: str | None, said: str) -> None:
    environment = {} if cuda is None else {"CUDA_VISIBLE_DEVICES": cuda}
    with pytest.raises(InvalidSettings, match=said):
        chosen(Driver(FOUR), GpuChoice.parse(choice), environment)


def test_a_gpu_that_is_wanted_where_the_driver_is_in_trouble_says_so() -> None:
    with pytest.raises(InvalidSettings, match="version mismatch"):
        chosen(Driver(trouble="version mismatch"), GpuChoice(("0",)), {})


def test_a_machine_without_gpus_is_not_disturbed_by_variables() -> None:
    assert chosen(Driver(), GpuChoice(), {"CUDA_VISIBLE_DEVICES": "0"}) == ()
