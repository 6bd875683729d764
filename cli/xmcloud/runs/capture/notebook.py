"""A notebook as a script."""

import json
from pathlib import Path

from xmcloud.runs.facts import Facts


def script_of(facts: Facts) -> bytes:
    """The notebook's code; what was run so far where its file is not known or not readable."""
    try:
        cells = _cells(Path(facts.directory, facts.notebook).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        cells = facts.cells
    return "\n\n".join(_plain(cell) for cell in cells if cell.strip()).encode() + b"\n"


def _cells(notebook: bytes) -> list[str]:
    cells = json.loads(notebook)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def _plain(cell: str) -> str:
    """What only a notebook understands stays, as a comment."""
    if cell.lstrip().startswith("%%"):
        return "\n".join(f"# {line}" for line in cell.splitlines())
    lines = cell.splitlines()
    return "\n".join(f"# {line}" if line.lstrip()[:1] in "%!?" else line for line in lines)
