"""One stack for all examples; those that tests ask for are launched together at its start."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.bazel.workspace import require_bazel, take_offline
from tests.e2e.stack import Stack
from tests.examples.rehearsal import EXAMPLES, Launch
from tests.support.engine import DockerEngine
from xmcloud.local.processes import free_ports

BOARD = "projects/xmcloud-local/locations/us-central1/tensorboards/1"


@pytest.fixture(scope="session")
def stack(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A control plane, a worker that runs containers, and the stand-ins."""
    folder = tmp_path_factory.mktemp("rehearsal")
    stack = Stack(folder / "home", folder / "cache")
    stack.environment |= docker_engine.environment
    stack.environment["GOOGLE_CLOUD_BUCKET_NAME"] = "xmcloud-local"
    try:
        with ThreadPoolExecutor(1) as aside:
            pushed = aside.submit(docker_engine.push, docker_engine.base_image, "base")
            stack("up", "--stand-ins", f"--registry={docker_engine.registry}", "--slots=16")
            pushed.result()
        # What the example with a Dockerfile starts from.
        docker_engine.client().images.get(docker_engine.base_image).tag("python", "3.12-slim")
        yield stack
    finally:
        stack.close()


@pytest.fixture(scope="session")
def base_image(docker_engine: DockerEngine) -> str:
    """The flag for it."""
    return f"--base_image={docker_engine.registry}/base"


@pytest.fixture(scope="session")
def ports() -> Mapping[str, int]:
    """Where what runs in containers is seen."""
    return dict(zip(("board", "server"), free_ports(2), strict=True))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where examples write."""
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="session")
def launches(
    stack: Stack,
    base_image: str,
    ports: Mapping[str, int],
    folder: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Mapping[str, Launch]]:
    """Those whose tests are to run, by how the names of the tests begin."""
    flags = {
        "tensorboard_unit": (
            "tensorboard_unit",
            base_image,
            f"--tensorboard_log_dir={folder / 'curves'}",
            f"--tensorboard_port={ports['board']}",
            "--tensorboard_timeout_secs=15",
        ),
        "tensorboard_sweep": ("tensorboard_sweep", base_image, f"--tensorboard={BOARD}"),
        "tpu": ("tpu", base_image, "--numerics=numpy"),
        "multi_worker": ("distributed", base_image, "--platform=vertex"),
        "parameter_server": (
            "distributed",
            base_image,
            "--strategy=parameter_server",
            "--platform=local",
            "--gpus_per_node=0",
            "--workers=2",
        ),
        "dockerfile": ("dockerfile",),
        "async_group": ("async_group", base_image),
        "image_or_code": ("image_or_code", base_image),
        "packageable_args": ("packageable_args", base_image),
        "container_links": (
            "container_links",
            base_image,
            f"--port={ports['server']}",
            f"--data={folder / 'store'}",
            "--visits=3",
        ),
        "search": ("search", base_image, "--trials=5"),
    }
    started = {}
    for name, (example, *own) in flags.items():
        if any(item.name.startswith(f"test_{name}") for item in request.session.items):
            script = EXAMPLES / example / "launch.py"
            started[name] = Launch(stack, script, own, folder / name)
    try:
        yield started
    finally:
        for launch in started.values():
            launch.kill()


@pytest.fixture
def launch(launches: Mapping[str, Launch], request: pytest.FixtureRequest) -> Launch:
    """Of the example that the test is named after."""
    [found] = [name for name in launches if request.node.name.startswith(f"test_{name}")]
    return launches[found]


@pytest.fixture
def bazel_workspace(tmp_path: Path) -> Iterator[Path]:
    """The example for Bazel, which needs no network here."""
    require_bazel()
    workspace = tmp_path / "bazel_local"
    shutil.copytree(EXAMPLES / "bazel_local", workspace)
    take_offline(workspace, tmp_path / "bazel")
    yield workspace
    subprocess.run(["bazel", "shutdown"], cwd=workspace, check=True, capture_output=True)
    # Bazel takes the right to write from what it builds, and pytest could not remove it.
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=True)
