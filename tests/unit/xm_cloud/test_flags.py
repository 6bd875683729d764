"""Flags of scripts on disk, run in a process of their own."""

from pathlib import Path

import pytest

from tests.unit.xm_cloud.test_launcher import run, write
from xmcloud.xm_cloud import flags

ABSL = """
    {imports}
    from xmcloud import xm_local
    from xmcloud.xm_cloud import flags as ours
    def main(argv):
        print(argv[1:], ours.build_image_locally(), ours.wrap_late_bindings())
    if __name__ == "__main__":
        {run}
"""
EVERY = (
    "--xm_build_image_locally",
    "--xm_use_docker_command",
    "--noxm_show_docker_command_progress",
    "--xm_wrap_late_bindings",
    "--xm_cloud_build_timeout_seconds=5",
    "--xm_use_cloud_build_cache",
    "--xm_use_kaniko",
    "--xm_kaniko_cache_ttl=1h",
    "--xm_gcp_service_account_name=a",
    "--xm_k8s_service_account_name",
    "a",
    "--xm_db_yaml_config_path=a",
    "--xm_upgrade_db",
    "--xm_bazel_command=bazelisk",
    "--xm_use_multiplexer",
    "--xm_open_multiplexer_window=1",
    "--xm_subprocess_docker_impl",
    "--xm_gcs_path=gs://a",
)


def script(folder: Path, imports: str, run: str = "main([])") -> Path:
    return write(folder, launch=ABSL.format(imports=imports, run=run))


@pytest.mark.parametrize("imports", ["", "from absl import flags"])
def test_every_flag_of_the_published_launcher_is_accepted(tmp_path: Path, imports: str) -> None:
    assert run(script(tmp_path, imports), *EVERY, "rest").stdout == "['rest'] True True\n"


@pytest.mark.parametrize("imports", ["", "from absl import flags"])
@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([], "False False"),
        (["--xm_build_image_locally"], "True False"),
        (["--xm_build_image_locally=false", "--xm_wrap_late_bindings=true"], "False True"),
        (["--xm_wrap_late_bindings", "--noxm_wrap_late_bindings"], "False False"),
    ],
)
def test_what_the_flags_say(tmp_path: Path, imports: str, given: list[str], values: str) -> None:
    assert run(script(tmp_path, imports), *given).stdout == f"[] {values}\n"


@pytest.mark.parametrize("imports", ["", "from absl import flags"])
def test_the_service_account_of_jobs_on_kubernetes(tmp_path: Path, imports: str) -> None:
    source = f"""
        {imports}
        from xmcloud import xm_local
        def main(_):
            for executor in (xm_local.Kubernetes(), xm_local.Kubernetes(service_account="mine")):
                print(executor.platform.service_account)
    """
    script = write(tmp_path, launch=source)
    assert run(script).stdout == "\nmine\n"
    assert run(script, "--xm_k8s_service_account_name=trainer").stdout == "trainer\nmine\n"


def test_flags_that_change_nothing_are_told(tmp_path: Path) -> None:
    ended = run(script(tmp_path, ""), "--xm_use_multiplexer", "--xm_wrap_late_bindings")
    assert ended.stderr == "xmcloud: --xm_use_multiplexer is accepted and changes nothing.\n"


def test_a_script_that_runs_directly_has_them_with_absl(tmp_path: Path) -> None:
    path = script(tmp_path, "from absl import app", "app.run(main)")
    ended = run_directly(path, "--xm_wrap_late_bindings")
    assert ended == "[] False True\n"


def run_directly(path: Path, *argv: str) -> str:
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, str(path), *argv], capture_output=True, text=True, check=True
    ).stdout


def test_flags_of_the_script_stay() -> None:
    argv = ["launch.py", "--xm_mine=1", "--rate", "2", "xm_use_kaniko"]
    assert flags.without_own(argv) == argv
