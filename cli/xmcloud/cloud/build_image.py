"""The steps by which the image of a folder of Python code is built."""

from pathlib import Path

from xmcloud import xm
from xmcloud.xm_cloud.packaging import dockerfiles
from xmcloud.xm_cloud.packaging.contexts import read_text

__all__ = ["default_steps"]


def default_steps(directory: str, use_deep_module: bool) -> list[str]:
    """What `xm.python_container(..)` does without `docker_instructions`, to be one part of them.

    `directory` is the name of the folder that it packages: the launch script's, or one in that.
    Raises InvalidInput for a name that no Dockerfile takes.
    """
    here = Path(xm.resolve_path_relative_to_launcher("."))
    folder = here if here.name == directory else here / directory
    requirements = read_text(folder / "requirements.txt", "requirements")
    return dockerfiles.default_steps(directory, use_deep_module, requirements)
