"""Counts what things cost and writes docs/cost.md."""

import sys

from tests.cost.record import DOCUMENT, regenerate

if __name__ == "__main__":
    changed = regenerate()
    lines = [*changed, f"wrote docs/{DOCUMENT.name}"]
    sys.stdout.writelines(f"{line}\n" for line in lines)
