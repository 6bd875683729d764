"""PyTorch's build for the machine: one index each for processors and for versions of CUDA."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from xmcloud.worker.environments.lines import logical, option, package
from xmcloud.worker.setup import SetupFailed

_PACKAGES = {"torch", "torchvision", "torchaudio"}
_CHOSEN = ("UV_TORCH_BACKEND", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
_LABEL = re.compile(r"==\s*[0-9][^\s;,+]*\+(cpu|cu[0-9]+|rocm[0-9.]+|xpu)\s*(?:;|$)")
_CUDA = re.compile(r"^cuda\s*(?::[^=]*)?=\s*(?:'([^']*)'|\"([^\"]*)\"|None)", re.MULTILINE)
_HIP = re.compile(r"^(?:hip|xpu)\s*(?::[^=]*)?=\s*['\"]", re.MULTILINE)


def of_machine(cuda: str, variables: Mapping[str, str]) -> str:
    """uv's name for the builds that suit a machine; '' where its settings of uv name an index.

    `cuda` is the newest version that the machine's driver knows, '' without one.
    """
    if any(name in variables for name in _CHOSEN):
        return ""
    # uv knows all builds that the driver can run, and takes the newest that fits the versions.
    return "auto" if cuda else "cpu"


def backend(text: str, of_machine: str) -> Sequence[str]:
    """uv's option, none where the requirements say themselves where PyTorch comes from."""
    if not of_machine:
        return ()
    lines = list(logical(text))
    labels = {found[1] for line in _torch(lines) if (found := _LABEL.search(line))}
    if _names_an_index(lines) or any("@" in line.split(";")[0] for line in _torch(lines)):
        return ()
    if labels:
        return ("--torch-backend", labels.pop()) if len(labels) == 1 else ()
    return ("--torch-backend", of_machine)


def wants_cpu(text: str) -> bool:
    """Whether the requirements ask for the build without CUDA themselves."""
    lines = list(logical(text))
    return any("+cpu" in line or "%2Bcpu" in line or "/whl/cpu" in line for line in lines)


def check(site: Path, text: str, cuda: str) -> None:
    """Raises `SetupFailed` when a machine with CUDA got a PyTorch that cannot use it."""
    version = _installed(site)
    if not cuda or version is None or wants_cpu(text):
        return
    built = _built_for(site, version)
    if built is None:
        raise SetupFailed(
            f"torch {version} was installed, a build without CUDA, though this machine has"
            f" CUDA {cuda}. Name the index of a build for it (--index-url"
            " https://download.pytorch.org/whl/cu..), or ask for this one:"
            f" torch=={version.partition('+')[0]}+cpu."
        )
    if built and int(built.split(".")[0]) > int(cuda.split(".")[0]):
        raise SetupFailed(
            f"torch {version} was installed, a build for CUDA {built}, and this machine's driver"
            f" goes up to CUDA {cuda}. Ask for an older build, or update the driver."
        )


def _torch(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if package(line) in _PACKAGES]


def _names_an_index(lines: Sequence[str]) -> bool:
    """The index of everything, or a further one that is PyTorch's."""
    for line in lines:
        if line == "--no-index" or option(line, "-i", "--index-url", "--default-index") is not None:
            return True
        further = option(line, "--extra-index-url", "--index", "-f", "--find-links")
        if further is not None and "pytorch" in further:
            return True
    return False


def _installed(site: Path) -> str | None:
    """The version of torch."""
    folder = next(site.glob("torch-*.dist-info"), None)
    return folder.name.removesuffix(".dist-info").partition("-")[2] if folder else None


def _built_for(site: Path, version: str) -> str | None:
    """The version of CUDA, None without; '' when it is another accelerator or is not known."""
    if version.endswith("+cpu"):
        return None
    try:
        facts = (site / "torch" / "version.py").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    if found := _CUDA.search(facts):
        return found[1] or found[2] or ("" if _HIP.search(facts) else None)
    return ""
