"""Docker instructions that scripts put together, and what goes into contexts."""

import tarfile
from pathlib import Path

import pytest

from xmcloud import xm
from xmcloud.cloud import build_image
from xmcloud.contrib import tpu
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud import flags
from xmcloud.xm_cloud.packaging.contexts import python_context
from xmcloud.xm_cloud.packaging.dockerfiles import python_dockerfile


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("requirements", ["numpy\n", None])
def test_the_default_steps_make_the_image_that_is_made_without_instructions(
    folder: Path, deep: bool, requirements: str | None
) -> None:
    if requirements is None:
        (folder / "requirements.txt").unlink()
    plain = xm.PythonContainer(entrypoint=xm.ModuleName("train"), use_deep_module=deep)
    own = xm.PythonContainer(
        entrypoint=xm.ModuleName("train"),
        docker_instructions=build_image.default_steps("train", use_deep_module=deep),
    )
    assert python_dockerfile(own, requirements) == python_dockerfile(plain, requirements)


def test_the_steps_of_a_folder_in_that_of_the_script(folder: Path) -> None:
    (folder / "inner").mkdir()
    steps = "\n".join(build_image.default_steps("inner", use_deep_module=False))
    assert '"inner/"' in steps
    assert "requirements" not in steps
    (folder / "inner" / "requirements.txt").write_text("numpy\n")
    assert "pip install" in "\n".join(build_image.default_steps("inner", use_deep_module=False))


def test_a_name_that_no_dockerfile_takes(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"path is 'a\"b'"):
        build_image.default_steps('a"b', use_deep_module=False)


def test_a_tpu_gets_its_driver_and_a_tensorflow_for_it() -> None:
    driver, tensorflow = tpu.tpuvm_docker_instructions()
    assert "-O /lib/libtpu.so https://" in driver
    assert "pip install" in tensorflow
    assert "tf_nightly-2.6.0-cp38" in tensorflow


def files_of(spec: xm.PythonContainer) -> dict[str, bytes]:
    with python_context(spec) as context, tarfile.open(fileobj=context.file) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file}


def test_with_late_bindings_the_modules_for_them_lie_beside_the_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = xm.PythonContainer(entrypoint=xm.ModuleName("train"))
    plain = files_of(spec)
    monkeypatch.setattr(flags, "_given", {})
    flags.without_own(["launch.py", "--xm_wrap_late_bindings"])
    (folder / "vizier_worker.py").write_text("# mine")
    files = files_of(spec)
    added = {"train/vertex_utils.py", "train/vizier_worker.py"}
    assert files.keys() - plain.keys() == added
    assert b"def get_master_address_port" in files["train/vertex_utils.py"]
    assert files["train/vizier_worker.py"] == b"# mine"
