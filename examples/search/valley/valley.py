"""One trial: how high the valley is at a point. Its lowest point is (1, 1)."""

import argparse
import json
import os
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trial_name", required=True)
    parser.add_argument("--x", type=float, required=True)
    parser.add_argument("--y", type=float, required=True)
    options = parser.parse_args()
    loss = (1 - options.x) ** 2 + 100 * (options.y - options.x**2) ** 2
    print(f"{options.trial_name}: {loss:.3f} at ({options.x:.3f}, {options.y:.3f})")
    Path(os.environ["XMCLOUD_RESULTS"]).write_text(json.dumps({"loss": loss}))


if __name__ == "__main__":
    main()
