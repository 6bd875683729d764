"""The integral of a function of x; the variable RULE chooses how."""

import argparse
import json
import os
import sys
from pathlib import Path

RULES = {
    "midpoint": (0.0, 1.0, 0.0),
    "trapezoid": (0.5, 0.0, 0.5),
    "simpson": (1 / 6, 4 / 6, 1 / 6),
}


def main() -> None:
    print("arguments", json.dumps(sys.argv[1:]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="low", type=float, required=True)
    parser.add_argument("--to", dest="high", type=float, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("function")
    options = parser.parse_args()
    rule = os.environ.get("RULE", "midpoint")
    width = (options.high - options.low) / options.steps
    function = compile(options.function, "function", "eval")
    total = 0.0
    for step in range(options.steps):
        for place, weight in zip((0.0, 0.5, 1.0), RULES[rule], strict=True):
            total += weight * width * eval(function, {"x": options.low + (step + place) * width})
    print(f"{rule}: {total:.6f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"integral": total}))


if __name__ == "__main__":
    main()
