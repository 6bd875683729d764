"""Runs launch scripts."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud import flags

PACKAGE = "xmcloud_launch"
"""The package of a script whose folder is none, so that its relative imports work."""


def launch(path: str, argv: Sequence[str]) -> None:
    """Calls `main` of the script with `[path, *argv]`, its folder first on `sys.path` meanwhile.

    A script that imports absl gets its flags parsed by absl. Raises `InvalidInput` for what is no
    launch script, and whatever the script raises.
    """
    script = Path(path).absolute()
    if not script.is_file():
        raise InvalidInput("script", path, "a Python file")
    for name in flags.unused(argv):
        sys.stderr.write(f"xmcloud: --{name} is accepted and changes nothing.\n")
    with _as_program(script, [path, *argv]), xm.launch_script_folder(script.parent):
        main = getattr(_imported(script), "main", None)
        if not callable(main):
            raise InvalidInput("script", path, "a launch script: it defines no main(argv)")
        _call(main, [path, *argv])


@contextmanager
def _as_program(script: Path, argv: list[str]) -> Iterator[None]:
    saved = sys.path[:], sys.argv[:]
    sys.path.insert(0, str(script.parent))
    sys.argv[:] = argv
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = saved


def _imported(script: Path) -> ModuleType:
    name = f"{_package_of(script.parent)}.{script.stem}"
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise InvalidInput("script", str(script), "a Python file, named *.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _package_of(folder: Path) -> str:
    """The name of the package that the folder is, else of one made up for it."""
    parts: list[str] = []
    root = folder
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if parts and all(part.isidentifier() for part in parts):
        sys.path.insert(1, str(root))
        return ".".join(parts)
    package = ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    return PACKAGE


def _call(main: Callable[..., Any], argv: list[str]) -> None:
    if "absl.flags" in sys.modules:
        _call_with_absl(main, argv)
        return
    argv = flags.without_own(argv)
    sys.argv[:] = argv
    result = main(argv) if inspect.signature(main).parameters else main()
    if inspect.iscoroutine(result):
        import asyncio

        asyncio.run(result)


def _call_with_absl(main: Callable[..., Any], argv: list[str]) -> None:
    from absl import app

    flags.define()
    try:
        app.run(main, argv=argv)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
