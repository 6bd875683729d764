"""Tells two clouds of points apart, by logistic regression."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter

STEPS = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--log_dir", required=True)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 400)
    points = random.normal(0, 1, (400, 2)) + 2.0 * labels[:, None]
    weights, bias, accuracy = np.zeros(2), 0.0, 0.0
    with SummaryWriter(options.log_dir) as writer:
        for step in range(STEPS):
            likely = 1 / (1 + np.exp(-(points @ weights + bias)))
            accuracy = float(np.mean((likely > 0.5) == labels))
            writer.add_scalar("accuracy", accuracy, step)
            error = likely - labels
            weights -= options.learning_rate * (points.T @ error) / len(labels)
            bias -= options.learning_rate * float(error.mean())
    print(f"accuracy {accuracy:.3f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"accuracy": accuracy}))


if __name__ == "__main__":
    main()
