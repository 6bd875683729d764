"""What a script's process tells of itself when it starts. Needs the standard library alone."""

import os
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


@dataclass(slots=True)
class Facts:
    """`main` is '' where no file is run, `module` that of `python -m`."""

    title: str
    project: str
    pid: int
    python: str
    executable: str
    directory: str
    main: str
    module: str
    arguments: list[str]
    original: list[str]
    path: list[str]
    spool: str
    output: str
    notebook: str = ""
    cells: list[str] = field(default_factory=list)


def facts(title: str, project: str, spool: str, output: str) -> Facts:
    """Of this process, now; `spool` is where it leaves what it makes, `output` what it prints."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec is not None else ""
    notebook, cells = _notebook(main)
    return Facts(
        title=title,
        project=project,
        pid=os.getpid(),
        python=".".join(map(str, sys.version_info[:3])),
        executable=sys.executable or "",
        directory=os.getcwd(),
        main="" if notebook or cells else getattr(main, "__file__", None) or "",
        module=module,
        arguments=sys.argv[1:] if not cells else [],
        original=list(sys.orig_argv),
        path=list(sys.path),
        spool=spool,
        output=output,
        notebook=notebook,
        cells=cells,
    )


def _notebook(main: ModuleType | None) -> tuple[str, list[str]]:
    """Its path, where the front end tells it, and the cells that ran so far."""
    shell: Any = getattr(sys.modules.get("ipykernel.zmqshell"), "ZMQInteractiveShell", None)
    if main is None or shell is None or not shell.initialized():
        return "", []
    said = vars(main).get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")
    places = [str(said), os.path.basename(str(said))]
    found = next((p for p in places if p.endswith(".ipynb") and os.path.isfile(p)), "")
    return found, list(vars(main).get("In", []))


def modules() -> list[str]:
    """The names of all that is imported."""
    return list(sys.modules)


def files() -> dict[str, str]:
    """The files of imported modules that are not installed; asks no lazy module anything."""
    installed = tuple({os.path.realpath(path) for path in _installed()})
    found = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            file = object.__getattribute__(module, "__dict__").get("__file__")
            if isinstance(file, str) and not file.startswith(installed):
                found[name] = file
    return found


def _installed() -> list[str]:
    import sysconfig

    return [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
