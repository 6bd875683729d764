"""What a machine has for its worker, in a control group and outside."""

import os
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from tests.support.nvml import gpu
from xmcloud.worker.machine import Machine, cpus, memory, oom_kills

GROUP = "sys/fs/cgroup"
MACHINE_MEMORY = psutil.virtual_memory().total


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/", f"{GROUP}/cpu.max": "50000 100000\n"}, 0.5),
        ({"proc/self/cgroup": "0::/", f"{GROUP}/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/a/b", f"{GROUP}/a/cpu.max": "30000 100000\n"}, 0.3),
        (
            {
                "proc/self/cgroup": "0::/a",
                f"{GROUP}/a/cpu.max": "90000 100000",
                f"{GROUP}/cpu.max": "20000 100000",
            },
            0.2,
        ),
        ({"proc/self/cgroup": "0::/of/the/host", f"{GROUP}/cpu.max": "10000 100000"}, 0.1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n0::/",
                f"{GROUP}/cpu/x/cpu.cfs_quota_us": "25000",
                f"{GROUP}/cpu/x/cpu.cfs_period_us": "100000",
            },
            0.25,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/",
                f"{GROUP}/cpu/cpu.cfs_quota_us": "-1",
                f"{GROUP}/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_cores_are_as_many_as_the_group_may_use(
    tmp_path: Path, files: Mapping[str, str], cores: float | None
) -> None:
    assert cpus(tree(tmp_path, files)) == (cores or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({}, MACHINE_MEMORY),
        ({"proc/self/cgroup": "0::/", f"{GROUP}/memory.max": "1048576\n"}, 2**20),
        ({"proc/self/cgroup": "0::/", f"{GROUP}/memory.max": "max\n"}, MACHINE_MEMORY),
        (
            {
                "proc/self/cgroup": "4:memory:/a",
                f"{GROUP}/memory/memory.limit_in_bytes": "9223372036854771712",
                f"{GROUP}/memory/a/memory.limit_in_bytes": "2097152",
            },
            2**21,
        ),
    ],
)
def test_memory_is_what_the_group_may_use(
    tmp_path: Path, files: Mapping[str, str], size: int
) -> None:
    assert memory(tree(tmp_path, files)) == size


def test_kills_for_want_of_memory_are_counted_where_jobs_are(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0
    tree(tmp_path, {"proc/vmstat": "nr_free_pages 1\noom_kill 30\n"})
    assert oom_kills(tmp_path) == 30
    files = {
        "proc/self/cgroup": "0::/a",
        f"{GROUP}/a/memory.events": "low 0\noom 9\noom_kill 2\n",
        f"{GROUP}/memory.events": "oom_kill 7\n",
    }
    assert oom_kills(tree(tmp_path, files)) == 2
    files = {
        "proc/self/cgroup": "4:memory:/b\n0::/a",
        f"{GROUP}/memory/b/memory.oom_control": "oom_kill_disable 0\noom_kill 1\n",
    }
    assert oom_kills(tree(tmp_path, files)) == 1


def test_this_machine_says_what_it_has() -> None:
    resources = Machine().resources()
    assert resources.keys() == {"cpu", "memory"}
    assert 0 < resources["cpu"] <= (os.cpu_count() or 1)
    assert 0 < resources["memory"] <= MACHINE_MEMORY


def test_gpus_are_announced_under_all_their_names() -> None:
    machine = Machine((gpu(0), gpu(1, "NVIDIA A100-SXM4-80GB"), gpu(2, "NVIDIA L4")))
    resources = machine.resources()
    expected = {"a100": 2, "a100-80gib": 1, "l4": 1, "l4-24th": 1, "gpu": 3}
    assert {k: v for k, v in resources.items() if k not in ("cpu", "memory")} == expected
