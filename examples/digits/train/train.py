"""Trains a small neural network on scikit-learn's handwritten digits."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

EPOCHS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden_units", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images / 16.0, labels, test_size=0.3, random_state=0, stratify=labels
    )
    model = MLPClassifier(
        hidden_layer_sizes=(options.hidden_units,),
        learning_rate_init=options.learning_rate,
        random_state=0,
    )
    for epoch in range(1, EPOCHS + 1):
        model.partial_fit(train_images, train_labels, classes=np.arange(10))
        if epoch % 10 == 0:
            print(f"epoch {epoch}: loss {model.loss_:.4f}")

    accuracy = model.score(test_images, test_labels)
    print(f"accuracy on {len(test_labels)} unseen digits: {accuracy:.4f}")
    if results := os.environ.get("XMCLOUD_RESULTS"):
        Path(results).write_text(json.dumps({"accuracy": accuracy, "loss": model.loss_}))


if __name__ == "__main__":
    main()
