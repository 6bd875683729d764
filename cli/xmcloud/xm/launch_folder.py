"""The folder of the launch script, against which the paths of specs resolve."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# One process launches one script, and its threads see the same folder: a context variable would
# be lost in the threads a script starts.
_folders: list[str] = []


@contextmanager
def launch_script_folder(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Resolve the paths of specs against `folder` while a launch script runs."""
    _folders.append(os.path.abspath(folder))
    try:
        yield
    finally:
        _folders.pop()


def resolve_path_relative_to_launcher(path: str | os.PathLike[str]) -> str:
    """An absolute, normal path; symbolic links stay as they are.

    Outside `launch_script_folder`, the launch script is the program that Python runs.
    """
    folder = _folders[-1] if _folders else _folder_of_main()
    return os.path.normpath(os.path.join(folder, path))


def _folder_of_main() -> str:
    script = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.dirname(os.path.abspath(script)) if script else os.getcwd()
