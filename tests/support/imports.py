"""What importing a module loads."""

import subprocess
import sys


def loaded_by(module: str) -> set[str]:
    """The top-level modules that a fresh interpreter loads for it."""
    program = (
        f"import sys; before = set(sys.modules); import {module}; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    run = [sys.executable, "-c", program]
    return set(subprocess.run(run, check=True, capture_output=True, text=True).stdout.split())
