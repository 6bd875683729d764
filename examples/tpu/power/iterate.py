"""The largest eigenvalue of a symmetric matrix, by multiplying with it again and again."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

STEPS = 100


def numerics() -> Any:
    """JAX where it is installed, which computes on the TPU; else NumPy."""
    try:
        import jax.numpy
    except ImportError:
        import numpy

        return numpy
    return jax.numpy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, required=True)
    size: int = parser.parse_args().size
    np = numerics()
    places = np.arange(size)
    matrix = np.exp(-abs(places[:, None] - places[None, :]) / 2.0)
    vector = np.ones(size)
    for _ in range(STEPS):
        vector = matrix @ vector
        vector = vector / np.linalg.norm(vector)
    eigenvalue = float(vector @ matrix @ vector)
    print(f"{np.__name__}: the largest eigenvalue of {size} x {size} is {eigenvalue:.4f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"eigenvalue": eigenvalue}))


if __name__ == "__main__":
    main()
