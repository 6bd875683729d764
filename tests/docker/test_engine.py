"""The engine that the tests of containers stand on does what they take for granted."""

from io import BytesIO

import pytest

from tests.support.engine import DockerEngine

pytestmark = pytest.mark.docker


def build(engine: DockerEngine, tag: str, *lines: str) -> None:
    dockerfile = "\n".join([f"FROM {engine.base_image}", *lines]).encode()
    engine.client().images.build(
        fileobj=BytesIO(dockerfile), tag=tag, network_mode="host", pull=False
    )


def run(engine: DockerEngine, image: str, code: str) -> str:
    output: bytes = engine.client().containers.run(
        image, ["python3", "-c", code], network_mode="host", remove=True
    )
    return output.decode()


def test_it_runs_python(docker_engine: DockerEngine) -> None:
    assert run(docker_engine, docker_engine.base_image, "print(6 * 7)") == "42\n"


def test_a_build_installs_from_an_index(docker_engine: DockerEngine) -> None:
    build(
        docker_engine,
        "installs",
        "RUN pip install --no-cache-dir --break-system-packages --no-deps six",
        "RUN python3 -m venv /env && /env/bin/pip install --no-cache-dir --no-deps six",
    )

    printed = run(docker_engine, "installs", "import six; print(six.next(iter('a')))")

    assert printed == "a\n"


def test_an_image_comes_back_by_digest(docker_engine: DockerEngine) -> None:
    build(docker_engine, "travels", "RUN echo here >/came")
    by_digest = docker_engine.push("travels", "group/travels")
    client = docker_engine.client()
    client.images.remove("travels", force=True)
    client.images.remove(by_digest.partition("@")[0] + ":latest", force=True)

    client.images.pull(by_digest)

    assert run(docker_engine, by_digest, "print(open('/came').read())") == "here\n\n"
    assert by_digest.startswith(f"{docker_engine.registry}/group/travels@sha256:")
