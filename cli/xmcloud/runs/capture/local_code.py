"""Code that is imported from this machine's folders, so that it can be carried along."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xmcloud.xm_cloud.archives.ignore import files_below

CARRIED = ".xmcloud-local"
"""Below the root of the code: what was imported from outside of it."""

_OWN = "xmcloud"


@dataclass(slots=True)
class LocalCode:
    """Folders inside the root that modules are found in; files from outside by what they are."""

    folders: list[Path] = field(default_factory=list)
    carried: dict[str, Path] = field(default_factory=dict)


def local_code(files: Mapping[str, str], root: Path, found_anyway: Path) -> LocalCode:
    """Where imported modules come from; Python looks into the folder `found_anyway` by itself."""
    code = LocalCode()
    for base, top in sorted(set(_places(files))):
        if base.is_relative_to(root):
            if base != found_anyway and base not in code.folders:
                code.folders.append(base)
        else:
            code.carried |= {name: path for name, path in _below(base, top) if path.is_file()}
    return code


def needed(name: str, modules: Collection[str]) -> bool:
    """Whether a carried file is; of our own package often only what records runs."""
    parts = Path(name).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    own = [each for each in modules if each.startswith(f"{_OWN}.")]
    others = [each for each in own if not each.startswith(f"{_OWN}.runs")]
    return parts[0] != _OWN or bool(others) or module in (_OWN, *own)


def _places(files: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The folder that holds the top-level package or module, and the name of that."""
    for module, file in files.items():
        names = module.split(".")
        path = Path(file).resolve()
        parts = list(path.with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if path.suffix == ".py" and parts[-len(names) :] == names:
            yield Path(*parts[: -len(names)]), names[0]


def _below(base: Path, top: str) -> Iterator[tuple[str, Path]]:
    module = base / f"{top}.py"
    for path in [module] if module.is_file() else files_below(base / top):
        if not path.is_symlink():
            yield path.relative_to(base).as_posix(), path


def python_path(code: LocalCode, root: Path, working: Path) -> str:
    """PYTHONPATH as seen from the working directory, '' when none is needed."""
    folders = [*code.folders, *([root / CARRIED] if code.carried else [])]
    return os.pathsep.join(os.path.relpath(folder, working) for folder in folders)
