"""A linear model, its data in shards, and where results go."""

import argparse
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

TRUE_WEIGHTS = [2.0, -3.0, 0.5, 1.0]
EXAMPLES = 240

Vector = Sequence[float]


def learning_rate() -> float:
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, required=True)
    return float(parser.parse_args().learning_rate)


def shard(index: int, count: int) -> Sequence[Vector]:
    """Every count-th of the examples, from this one on."""
    source = random.Random(0)
    inputs = [[source.gauss(0, 1) for _ in TRUE_WEIGHTS] for _ in range(EXAMPLES)]
    return inputs[index::count]


def gradient(weights: Vector, inputs: Sequence[Vector]) -> list[float]:
    """Of the squared error."""
    total = [0.0] * len(weights)
    for x in inputs:
        error = dot(weights, x) - dot(TRUE_WEIGHTS, x)
        total = [t + 2 * error * value / len(inputs) for t, value in zip(total, x, strict=True)]
    return total


def loss(weights: Vector, inputs: Sequence[Vector]) -> float:
    errors = (dot(weights, x) - dot(TRUE_WEIGHTS, x) for x in inputs)
    return sum(error**2 for error in errors) / len(inputs)


def moved(weights: Vector, by: Vector, rate: float) -> list[float]:
    return [w - rate * change for w, change in zip(weights, by, strict=True)]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def report(**results: float) -> None:
    print(" ".join(f"{name} {value:.3g}" for name, value in results.items()))
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps(results))
