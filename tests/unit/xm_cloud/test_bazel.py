"""Labels, workspaces and what Bazel reports; nothing here runs Bazel."""

from pathlib import Path
from typing import Any

import pytest

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.packaging.bazel import (
    WORKSPACE_VARIABLE,
    BazelMissing,
    NoWorkspace,
    build,
    find_workspace,
)
from xmcloud.xm_cloud.packaging.bazel_events import Report, read_events, report_of
from xmcloud.xm_cloud.packaging.bazel_targets import BazelTarget, target_of
from xmcloud.xm_cloud.unsupported import Unsupported


@pytest.mark.parametrize(
    ("label", "whole"),
    [
        ("//pkg:target", "//pkg:target"),
        ("//pkg", "//pkg:pkg"),
        ("//a/b", "//a/b:b"),
        ("//:top", "//:top"),
        ("//pkg:dir/file.sh", "//pkg:dir/file.sh"),
        ("//all:one", "//all:one"),
        ("@//pkg:target", "//pkg:target"),
        ("@repo//pkg:t", "@repo//pkg:t"),
        ("@@repo~1.0//pkg", "@@repo~1.0//pkg:pkg"),
    ],
)
def test_a_label_is_made_whole(label: str, whole: str) -> None:
    assert BazelTarget(label).label == whole


@pytest.mark.parametrize(
    "label", [":t", "pkg:t", "pkg", "//", "//pkg:", "", "-//pkg:t", "repo//a:b"]
)
def test_what_is_no_whole_label_is_refused(label: str) -> None:
    with pytest.raises(InvalidInput, match=r"label is .* a whole label, such as //package:target"):
        BazelTarget(label)


@pytest.mark.parametrize(
    "label",
    ["//...", "//pkg/...", "//pkg/...:all", "//pkg:all", "//pkg:*", "//pkg:all-targets", "@r//..."],
)
def test_a_pattern_of_several_targets_is_refused(label: str) -> None:
    with pytest.raises(InvalidInput, match="one target, not a pattern"):
        BazelTarget(label)


def test_options_bring_no_targets_of_their_own() -> None:
    with pytest.raises(InvalidInput, match="bazel_args"):
        BazelTarget("//pkg:t", ("--", "//pkg:other"))


def test_a_spec_names_its_target() -> None:
    args = ["-c", "opt"]
    assert target_of(xm.BazelBinary("//a:b", bazel_args=args)) == BazelTarget(
        "//a:b", ("-c", "opt")
    )
    assert target_of(xm.BazelContainer("//a", bazel_args=args)) == BazelTarget(
        "//a:a", ("-c", "opt")
    )
    assert target_of(xm.Binary("//a:b")) == BazelTarget("//a:b")


def test_dependencies_belong_into_the_target() -> None:
    with pytest.raises(Unsupported, match=r"dependencies of //a:b .* `data` of the target"):
        target_of(xm.BazelBinary("//a:b", dependencies=[xm.BinaryDependency()]))


@pytest.mark.parametrize("marker", ["WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel"])
def test_the_workspace_is_around_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    monkeypatch.delenv(WORKSPACE_VARIABLE, raising=False)
    inner = tmp_path / "workspace" / "pkg"
    (inner / "WORKSPACE").mkdir(parents=True)
    (inner.parent / marker).touch()
    assert find_workspace(inner) == inner.parent
    assert find_workspace(inner.parent) == inner.parent


def test_bazel_run_names_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    with pytest.raises(InvalidInput, match=WORKSPACE_VARIABLE):
        find_workspace(Path("/"))
    (tmp_path / "MODULE.bazel").touch()
    assert find_workspace(Path("/")) == tmp_path


def test_no_workspace_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKSPACE_VARIABLE, raising=False)
    with pytest.raises(NoWorkspace, match=f"/ lies in no .* set {WORKSPACE_VARIABLE}"):
        find_workspace(Path("/"))


def test_a_missing_bazel_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "WORKSPACE").touch()
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BazelMissing, match="Install Bazelisk"):
        next(build([BazelTarget("//a:b")], lambda _: None))


def test_bazelisk_stands_in_for_bazel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "WORKSPACE").touch()
    bazelisk = tmp_path / "bazelisk"
    bazelisk.write_text("#!/bin/sh\necho ran in $PWD\n")
    bazelisk.chmod(0o755)
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    list(build([BazelTarget("//a:b")], said.append))
    assert said == [f"ran in {tmp_path}"]


def completed(label: str, *sets: str, group: str = "default") -> dict[str, Any]:
    files = {"name": group, "fileSets": [{"id": name} for name in sets]}
    return {
        "id": {"targetCompleted": {"label": label}},
        "completed": {"success": True, "outputGroup": [files]},
    }


def named_set(name: str, *files: str, includes: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "id": {"namedSet": {"id": name}},
        "namedSetOfFiles": {
            "files": [{"name": file, "uri": f"file://{file}"} for file in files],
            "fileSets": [{"id": name} for name in includes],
        },
    }


def test_sets_of_files_include_others() -> None:
    report = report_of(
        [
            named_set("0", "/out/a%20b"),
            named_set("1", "/out/c", includes=("0",)),
            named_set("2", "/out/d", includes=("0", "1")),
            completed("//pkg:t", "2", "0"),
        ]
    )
    assert report.outputs == {"//pkg:t": (Path("/out/a b"), Path("/out/c"), Path("/out/d"))}


@pytest.mark.parametrize(
    "label", ["//p:t", "@//p:t", "@@//p:t", "@r//p:t", "@@r~1//p:t", "@@r+//p:t"]
)
def test_every_version_of_bazel_writes_labels_in_its_own_way(label: str) -> None:
    report = report_of([named_set("0", "/out"), completed(label, "0")])
    assert report.outputs == {"//p:t": (Path("/out"),)}


def test_only_what_the_target_builds_by_default_counts() -> None:
    aspect = completed("//p:t", "1")
    aspect["id"]["targetCompleted"]["aspect"] = "lint"
    inline = named_set("0", "/out")
    inline["namedSetOfFiles"]["files"].append({"name": "link", "symlinkTargetPath": "elsewhere"})
    validation = completed("//p:v", "1", group="_validation")
    report = report_of(
        [inline, named_set("1", "/log"), completed("//p:t", "0"), aspect, validation]
    )
    assert report.outputs == {"//p:t": (Path("/out"),), "//p:v": ()}


def test_what_failed_is_told_apart_from_what_was_not_finished() -> None:
    def target(label: str) -> dict[str, Any]:
        return {"targetCompleted": {"label": label}}

    def pattern(*labels: str) -> dict[str, Any]:
        return {"pattern": {"pattern": list(labels)}}

    report = report_of(
        [
            {"id": target("//p:failed"), "completed": {"failureDetail": {}}},
            {"id": target("//p:broken"), "aborted": {"reason": "ANALYSIS_FAILURE"}},
            {"id": target("//p:unfinished"), "aborted": {"reason": "INCOMPLETE"}},
            {"id": pattern("//p:no"), "aborted": {"reason": "LOADING_FAILURE"}},
            {
                "id": pattern("//p:no", "//p:t"),
                "aborted": {"reason": "INCOMPLETE"},
            },
        ]
    )
    assert report == Report({}, frozenset({"//p:failed", "//p:broken", "//p:no"}))


def test_a_build_that_never_began_reports_nothing(tmp_path: Path) -> None:
    assert read_events(tmp_path / "none") == Report({}, frozenset())
