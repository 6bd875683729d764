"""Learns to walk from one corner of a grid to the opposite one, by Q-learning or SARSA."""

import argparse
import json
import os
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))
LIMIT = 1000
Place = tuple[int, int]


class Agent:
    """Values moves by what came of them."""

    def __init__(self, config: dict[str, Any], seed: int) -> None:
        self.config = config
        self.random = random.Random(seed)
        self.values: defaultdict[tuple[Place, int], float] = defaultdict(float)
        self.goal = (config["width"] - 1, config["height"] - 1)

    def best(self, place: Place) -> int:
        return max(range(len(MOVES)), key=lambda move: self.values[place, move])

    def choice(self, place: Place) -> int:
        if self.random.random() < self.config["explore"]:
            return self.random.randrange(len(MOVES))
        return self.best(place)

    def moved(self, place: Place, move: int) -> Place:
        x, y = (at + by for at, by in zip(place, MOVES[move], strict=True))
        return max(0, min(x, self.goal[0])), max(0, min(y, self.goal[1]))

    def learn(self, place: Place, move: int, then: Place, next_move: int) -> None:
        ahead = 0.0 if then == self.goal else self.values[then, next_move]
        wanted = self.config["discount"] * ahead - 1
        error = wanted - self.values[place, move]
        self.values[place, move] += self.config["learning_rate"] * error

    def episode(self, careful: bool) -> None:
        """SARSA is careful: it expects to make the moves that it really makes."""
        place, move = (0, 0), self.choice((0, 0))
        while place != self.goal:
            then = self.moved(place, move)
            next_move = self.choice(then)
            self.learn(place, move, then, next_move if careful else self.best(then))
            place, move = then, next_move

    def steps(self) -> int:
        """Of the way that it found."""
        place, count = (0, 0), 0
        while place != self.goal and count < LIMIT:
            place, count = self.moved(place, self.best(place)), count + 1
        return count


def main() -> None:
    print("arguments", json.dumps(sys.argv[1:]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--config_file", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    config = json.loads(options.config_file.read_text())
    kind = os.environ["AGENT"]
    agent = Agent(config, options.seed)
    episodes = options.episodes or config["episodes"]
    for number in range(episodes):
        agent.episode(careful=kind == "sarsa")
        if options.verbose and (number + 1) % 25 == 0:
            print(f"after {number + 1} episodes: {agent.steps()} steps")
    print(f"{kind}: {agent.steps()} steps after {episodes} episodes")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"steps": agent.steps(), "episodes": episodes}))


if __name__ == "__main__":
    main()
