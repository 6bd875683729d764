"""Fits a network with one hidden layer to a noisy wave."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter

STEPS = 300


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden_units", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    x = random.uniform(-3, 3, (256, 1))
    y = np.sin(x) + random.normal(0, 0.05, x.shape)
    first = random.normal(0, 1, (1, options.hidden_units))
    bias = random.normal(0, 1, options.hidden_units)
    second = np.zeros((options.hidden_units, 1))
    loss = float("inf")
    with SummaryWriter(log_folder()) as writer:
        for step in range(STEPS):
            hidden = np.tanh(x @ first + bias)
            error = hidden @ second - y
            loss = float(np.mean(error**2))
            writer.add_scalar("loss", loss, step)
            back = (error @ second.T) * (1 - hidden**2)
            rate = options.learning_rate / len(x)
            second -= rate * (hidden.T @ error)
            first -= rate * (x.T @ back)
            bias -= rate * back.sum(axis=0)
    print(f"loss {loss:.4f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"loss": loss}))


def log_folder() -> str:
    """Where Vertex AI sees curves; buckets are folders below /gcs."""
    return os.environ.get("AIP_TENSORBOARD_LOG_DIR", "logs").replace("gs://", "/gcs/", 1)


if __name__ == "__main__":
    main()
