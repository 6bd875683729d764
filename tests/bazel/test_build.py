"""What Bazel really builds from a launch script's labels."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.bazel.cache import remote_cache
from tests.support.tars import tarfile
from xmcloud.xm_cloud.packaging.bazel import BazelFailed, OutputsElsewhere, build
from xmcloud.xm_cloud.packaging.bazel_targets import BazelOutputs, BazelTarget, UnexpectedOutputs
from xmcloud.xm_cloud.packaging.runfiles import pack_binary


def build_one(label: str, *args: str) -> BazelOutputs:
    target = BazelTarget(label, args)
    return dict(build([target], say=quiet))[target]


def quiet(_: str) -> None:
    pass


def run_elsewhere(outputs: BazelOutputs, argument: str, folder: Path, cache: Path) -> str:
    """What the packed program prints where neither Bazel's cache nor the sources are."""
    program = folder / outputs.program().name
    with pack_binary(outputs) as packed, tarfile.open(fileobj=packed.file) as archive:
        archive.extractall(folder, filter="data")
    hidden = cache.rename(cache.with_name("hidden"))
    try:
        ran = subprocess.run([program, argument], capture_output=True, text=True, check=True)
    finally:
        hidden.rename(cache)
    return ran.stdout


@pytest.mark.parametrize(
    ("label", "printed"),
    [
        ("//pkg:greet", "word 5\n"),
        ("//pkg:greet_alias", "word 5\n"),
        ("//pkg:double", "word 10\n"),
        ("//pkg:add", "8\n"),
        ("//pkg:tool", "tool 5\n"),
        ("@other//pkg:greet", "other 5\n"),
    ],
)
def test_a_packed_program_runs_where_bazel_never_was(
    workspace: Path, tmp_path: Path, label: str, printed: str
) -> None:
    assert run_elsewhere(build_one(label), "5", tmp_path, workspace.parent) == printed


def test_the_same_program_is_packed_to_the_same_bytes(workspace: Path) -> None:
    first = pack_binary(build_one("//pkg:double"))
    for source in ("double.py", "lib.py"):
        os.utime(workspace / "pkg" / source, (1, 1))
    second = pack_binary(build_one("//pkg:double"))
    with first, second:
        assert first.digest == second.digest


def test_an_image_is_the_tar_that_the_target_builds(workspace: Path) -> None:
    with tarfile.open(build_one("//pkg:image").image()) as image:
        assert image.getnames() == ["pkg/word.txt"]


@pytest.mark.parametrize("label", ["//pkg:images", "//pkg:greet"])
def test_an_image_is_one_tar(workspace: Path, label: str) -> None:
    with pytest.raises(UnexpectedOutputs, match=r"image archive"):
        build_one(label).image()


@pytest.mark.parametrize("label", ["//pkg:lib", "//pkg:images", "//pkg:both"])
def test_a_program_is_one(workspace: Path, label: str) -> None:
    with pytest.raises(UnexpectedOutputs, match=r"one program"):
        build_one(label).program()


def test_targets_with_the_same_options_are_built_together(workspace: Path) -> None:
    quick, other = BazelTarget("//pkg:greet"), BazelTarget("@other//pkg:greet")
    more, optimised = BazelTarget("//pkg:double"), BazelTarget("//pkg:greet", ("-c", "opt"))
    said: list[str] = []
    outputs = dict(build([quick, optimised, other, more, quick], said.append))
    assert list(outputs) == [quick, more, optimised, other]
    assert [line for line in said if line.startswith("INFO: Found ")] == [
        "INFO: Found 2 targets...",
        "INFO: Found 1 target...",
        "INFO: Found 1 target...",
    ]
    assert "-fastbuild/" in str(outputs[quick].program())
    assert "-opt/" in str(outputs[optimised].program())


def test_outputs_stand_until_other_options_are_built(workspace: Path) -> None:
    targets = [BazelTarget("//pkg:who", (f"--define=WHO={name}",)) for name in ("ann", "bob")]
    seen = [
        (outputs.files[0], outputs.files[0].read_text()) for _, outputs in build(targets, quiet)
    ]
    (first, ann), (second, bob) = seen
    assert first == second
    assert (ann, bob) == ("ann\n", "bob\n")


def test_a_failed_build_names_its_target_and_shows_what_bazel_printed(workspace: Path) -> None:
    said: list[str] = []
    with pytest.raises(BazelFailed) as failed:
        list(build([BazelTarget("//pkg:bad"), BazelTarget("//pkg:greet")], said.append))
    error = failed.value
    assert (error.labels, error.exit_code) == (("//pkg:bad",), 1)
    assert "what went wrong" in error.lines
    assert error.lines == tuple(said[-20:])
    assert "bazel build of //pkg:bad ended with exit code 1." in str(error)
    assert "\n  what went wrong\n" in str(error)


@pytest.mark.parametrize("label", ["//pkg:unknown", "//unknown:greet", "@unknown//pkg:greet"])
def test_a_label_of_nothing_is_named(workspace: Path, label: str) -> None:
    with pytest.raises(BazelFailed, match=r"no such|not declared|not defined") as failed:
        list(build([BazelTarget("//pkg:greet"), BazelTarget(label)], quiet))
    assert failed.value.labels == (label,)


def test_a_wrong_option_shows_what_bazel_says(workspace: Path) -> None:
    with pytest.raises(BazelFailed, match=r"exit code 2(.|\n)*--no_such_option"):
        build_one("//pkg:greet", "--no_such_option")


def test_outputs_that_stay_in_a_remote_cache_are_told(workspace: Path) -> None:
    with remote_cache() as address:
        args = (
            f"--remote_cache={address}",
            "--experimental_remote_download_outputs=minimal",
            "--experimental_inmemory_jdeps_files",
            "--experimental_inmemory_dotd_files",
        )
        (built,) = build_one("//pkg:far", *args).files
        built.unlink()
        with pytest.raises(OutputsElsewhere, match=r"//pkg:far .* far.txt .*remote_download"):
            build_one("//pkg:far", *args)
        assert build_one("//pkg:far", *args, "--remote_download_outputs=all").files == (built,)
