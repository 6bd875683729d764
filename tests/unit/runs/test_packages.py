"""Which installed packages a script used, in a form that other machines understand."""

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from xmcloud.runs.capture.packages import code_of, imported, is_editable, pinned


def install(
    site: Path, name: str, version: str, files: list[str], origin: dict[str, Any] | None = None
) -> None:
    """As an installer leaves a package."""
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()
    record = [*files, f"{about.name}/METADATA", f"{about.name}/RECORD", "../../bin/tool"]
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in record))
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))


def test_what_was_imported_is_pinned(tmp_path: Path) -> None:
    install(tmp_path, "Some-Package", "1.2", ["some/__init__.py", "some/part.py"])
    install(tmp_path, "single", "3", ["single_module.py"])
    install(tmp_path, "native", "4", ["fast.cpython-311-x86_64-linux-gnu.so"])
    install(tmp_path, "unused", "5", ["unused/__init__.py"])
    install(tmp_path, "starter", "6", ["_distutils_hack/__init__.py"])
    names = ["some", "some.part", "single_module", "fast", "os", "json", "_distutils_hack"]
    found = imported(names, [str(tmp_path)])
    assert found.requirements == ["native==4", "single==3", "Some-Package==1.2"]
    assert found.local == []


def test_packages_that_share_a_name_are_told_apart(tmp_path: Path) -> None:
    install(tmp_path, "cloud-storage", "1", ["cloud/storage/__init__.py"])
    install(tmp_path, "cloud-queue", "2", ["cloud/queue/__init__.py", "cloud/queue/api.py"])
    names = ["cloud", "cloud.queue", "cloud.queue.api"]
    assert imported(names, [str(tmp_path)]).requirements == ["cloud-queue==2"]


def test_a_name_that_is_a_folder_alone_brings_no_package(tmp_path: Path) -> None:
    install(tmp_path, "cloud-storage", "1", ["cloud/storage/__init__.py"])
    assert imported(["cloud"], [str(tmp_path)]).requirements == []


def test_packages_of_this_machine_are_not_pinned(tmp_path: Path) -> None:
    files = ["mine/__init__.py", "mine/data.json"]
    install(tmp_path, "mine", "1", files, {"url": "file:///home/ann/mine", "dir_info": {}})
    editable = {"url": "file:///home/ann/edited", "dir_info": {"editable": True}}
    install(tmp_path, "edited", "1", ["edited/__init__.py"], editable)
    found = imported(["mine", "edited"], [str(tmp_path)])
    assert found.requirements == []
    assert [is_editable(each) for each in found.local] == [True, False]
    assert dict(code_of(found.local[1])) == {name: tmp_path / name for name in files}


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        ({}, "p==1"),
        ({"url": "file:///home/p-1.whl", "archive_info": {}}, None),
        ({"url": "https://u:secret@example.com/p.zip", "archive_info": {}}, "p @ https://example.com/p.zip"),
        (
            {
                "url": "https://token@example.com/p.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc"},
            },
            "p @ git+https://example.com/p.git@abc",
        ),
        (
            {"url": "ssh://git@example.com/p", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "p @ git+ssh://git@example.com/p@abc",
        ),
    ],
)  # fmt: skip
def test_where_a_package_is_from(origin: dict[str, Any], requirement: str | None) -> None:
    assert pinned("p", "1", origin) == requirement


@pytest.mark.parametrize(
    ("name", "requirement"), [("torch", "torch==2.9.0"), ("Torchvision", "Torchvision==2.9.0"),
                              ("jax", "jax==2.9.0+cpu")],
)  # fmt: skip
def test_what_torch_was_built_for_is_left_to_the_machine(name: str, requirement: str) -> None:
    assert pinned(name, "2.9.0+cpu", {}) == requirement


def test_packages_of_this_environment_are_found() -> None:
    found = imported(["click.core", "pydantic"], [sysconfig.get_path("purelib"), *sys.path])
    assert [line.split("==")[0] for line in found.requirements] == ["click", "pydantic"]
