"""Fits a line to a table, and on a terminal answers questions about it."""

import argparse
import glob
import json
import os
import sys
from pathlib import Path

from .table import TABLE

STEPS, RATE = 2000, 0.02


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--interactive", action="store_true")
    parser.add_argument("--nointeractive", dest="interactive", action="store_false")
    options = parser.parse_args()
    print(f"{len(glob.glob('/dev/nvidia[0-9]*'))} GPUs, terminal: {sys.stdin.isatty()}")
    slope, start = fitted()
    print(f"y = {slope:.2f} x + {start:.2f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"slope": slope, "start": start}))
    while options.interactive and (text := input("x (empty to end): ")):
        print(f"y is about {slope * float(text) + start:.1f}")


def fitted() -> tuple[float, float]:
    """By gradient descent on the squared error."""
    slope = start = 0.0
    for _ in range(STEPS):
        errors = [slope * x + start - y for x, y in TABLE]
        slope -= RATE * sum(e * x for e, (x, _) in zip(errors, TABLE, strict=True)) / len(TABLE)
        start -= RATE * sum(errors) / len(TABLE)
    return slope, start


if __name__ == "__main__":
    main()
