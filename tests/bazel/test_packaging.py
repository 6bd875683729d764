"""Targets that Bazel builds, packaged."""

import io
import subprocess
from pathlib import Path

import pytest

from tests.support.build_service import MemoryBuildService
from tests.support.tars import tarfile
from xmcloud import xm
from xmcloud.core.specs import Binary
from xmcloud.xm_cloud.executors import Local, WorkerPool
from xmcloud.xm_cloud.packaging.bazel import BazelFailed
from xmcloud.xm_cloud.packaging.bazel_targets import UnexpectedOutputs
from xmcloud.xm_cloud.packaging.package import package


def test_programs_keep_their_order_and_runfiles(workspace: Path, tmp_path: Path) -> None:
    service = MemoryBuildService()
    spec = WorkerPool.Spec()
    tool, greet, again = package(
        service,
        [
            xm.bazel_binary(spec, "//pkg:tool", args=["5"]),
            xm.binary(Local.Spec(), "//pkg:greet"),
            xm.bazel_binary(spec, "//pkg:greet", bazel_args=["--define=other=options"]),
        ],
    )
    assert isinstance(tool.executable, Binary)
    assert (tool.executable.name, tool.executable.archive) == ("tool.sh", False)
    assert service.blobs[tool.executable.file].endswith(b"echo tool $1")
    assert (tool.name, tool.args.to_argv()) == ("pkg_tool", ["5"])
    assert isinstance(greet.executable, Binary)
    assert greet.executable == again.executable
    assert (greet.executable.name, greet.executable.archive) == ("greet", True)
    with tarfile.open(fileobj=io.BytesIO(service.blobs[greet.executable.file])) as archive:
        archive.extractall(tmp_path, filter="data")
    ran = subprocess.run([tmp_path / "greet", "x"], capture_output=True, text=True, check=True)
    assert ran.stdout == "word x\n"


def test_what_cannot_be_packaged_fails_alone(workspace: Path) -> None:
    service = MemoryBuildService()
    greet = xm.bazel_binary(WorkerPool.Spec(), "//pkg:greet")
    with pytest.raises(UnexpectedOutputs, match="//pkg:images"):
        package(service, [xm.bazel_container(Local.Spec(), "//pkg:images"), greet])
    assert service.puts == 1
    with pytest.raises(BazelFailed, match="//pkg:bad"):
        package(service, [greet, xm.bazel_binary(WorkerPool.Spec(), "//pkg:bad")])
