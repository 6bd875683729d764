"""Something to do when a module is imported for the first time."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Attach = Callable[[ModuleType], None]


class _Finder:
    """Finds one module as the others do, and is told when it is there."""

    def __init__(self, name: str, attach: Attach) -> None:
        self._name, self._attach = name, attach

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._attach(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def attach_to(name: str, attach: Attach) -> None:
    """Now if the module is there, else when it comes."""
    if (module := sys.modules.get(name)) is not None:
        attach(module)
    else:
        sys.meta_path.insert(0, _Finder(name, attach))
