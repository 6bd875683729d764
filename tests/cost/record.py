"""The counts that docs/cost.md is made of, and how those of another run compare."""

import json
import tempfile
from pathlib import Path

from tests.cost.bill import Bill, Counts
from tests.cost.page import page
from tests.cost.pricing import price_list
from tests.cost.scenarios import measured

HERE = Path(__file__).parent
RECORD = HERE / "counts.json"
PRICES = HERE / "prices.json"
DOCUMENT = HERE.parents[1] / "docs" / "cost.md"
AGAIN = "python -m tests.cost"
TOLERANCE = 0.25
"""Of sizes, in which names of machines and folders are."""


def recorded() -> Counts:
    found: Counts = json.loads(RECORD.read_text("utf-8"))
    return found


def differences(known: Counts, now: Counts) -> list[str]:
    """One line for each count that is another."""
    return [
        f"{scenario}: {kind} was {was:g}, is {found:g}"
        for scenario in sorted({*known, *now})
        for kind in sorted({*known.get(scenario, {}), *now.get(scenario, {})})
        for was in [known.get(scenario, {}).get(kind, 0)]
        for found in [now.get(scenario, {}).get(kind, 0)]
        if not _same(kind, was, found)
    ]


def _same(kind: str, was: float, found: float) -> bool:
    if kind.endswith("-bytes"):
        return abs(found - was) <= TOLERANCE * max(was, 100)
    return was == found


def rendered(counts: Counts) -> str:
    return page(Bill(counts, price_list(PRICES)))


def regenerate() -> list[str]:
    """Counts again and writes the page; returns what changed. Sizes that are alike stay."""
    with tempfile.TemporaryDirectory() as folder:
        now = measured(Path(folder))
    known = recorded() if RECORD.exists() else {}
    kept = {
        scenario: {
            kind: was
            if (was := known.get(scenario, {}).get(kind, 0)) and _same(kind, was, found)
            else found
            for kind, found in counts.items()
        }
        for scenario, counts in now.items()
    }
    RECORD.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    DOCUMENT.write_text(rendered(kept), "utf-8")
    return differences(known, kept)
