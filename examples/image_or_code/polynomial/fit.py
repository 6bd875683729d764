"""Fits a polynomial to a curve, by gradient descent."""

import argparse
import json
import math
import os
from pathlib import Path

STEPS = 500


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--platform", required=True)
    parser.add_argument("--degree", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    options = parser.parse_args()
    xs = [number / 10 - 1 for number in range(21)]
    powers = [[x**power for power in range(options.degree + 1)] for x in xs]
    weights = [0.0] * (options.degree + 1)
    errors = [0.0] * len(xs)
    for _ in range(STEPS):
        errors = [
            sum(w * power for w, power in zip(weights, row, strict=True)) - math.sin(2 * x)
            for row, x in zip(powers, xs, strict=True)
        ]
        for index in range(len(weights)):
            slope = sum(e * row[index] for e, row in zip(errors, powers, strict=True)) / len(xs)
            weights[index] -= options.learning_rate * slope
    loss = sum(error**2 for error in errors) / len(errors)
    print(f"degree {options.degree} on {options.platform}: loss {loss:.5f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"loss": loss}))


if __name__ == "__main__":
    main()
