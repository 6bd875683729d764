"""One of several nodes that train a perceptron together: after each batch, all take the mean."""

import argparse
import json
import os
import random
import socket
import time
from pathlib import Path

BATCHES = 40
BOUNDARY = (0.7, -0.4, 0.2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master_addr_port", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--world_size", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    options = parser.parse_args()
    print(f"rank {options.rank} of {options.world_size}, the first is {options.master_addr_port}")
    nodes = joined(options.master_addr_port, options.rank, options.world_size)
    source = random.Random(options.rank)
    weights = [0.0] * len(BOUNDARY)
    for _ in range(BATCHES):
        batch = [point(source) for _ in range(options.batch_size)]
        weights = mean(trained(weights, batch, options.learning_rate), nodes, options.rank)
    tests = [point(random.Random(number)) for number in range(500)]
    accuracy = sum(side(weights, x) == side(BOUNDARY, x) for x in tests) / len(tests)
    print(f"accuracy {accuracy:.3f}")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"accuracy": accuracy}))


def joined(address: str, rank: int, count: int) -> list[socket.socket]:
    """At the first node all others, and at the others the first."""
    host, _, port = address.rpartition(":")
    if rank == 0:
        with socket.create_server(("", int(port))) as server:
            return [server.accept()[0] for _ in range(count - 1)]
    while True:
        try:
            return [socket.create_connection((host, int(port)))]
        except OSError:
            time.sleep(0.1)


def mean(weights: list[float], nodes: list[socket.socket], rank: int) -> list[float]:
    """Of the weights of all nodes, which the first one makes."""
    if rank > 0:
        [first] = nodes
        first.sendall(json.dumps(weights).encode() + b"\n")
        return received(first)
    everyones = [weights, *map(received, nodes)]
    average = [sum(values) / len(everyones) for values in zip(*everyones, strict=True)]
    for node in nodes:
        node.sendall(json.dumps(average).encode() + b"\n")
    return average


def received(node: socket.socket) -> list[float]:
    line = b""
    while not line.endswith(b"\n"):
        piece = node.recv(4096)
        if not piece:
            raise ConnectionError("a node has gone")
        line += piece
    weights: list[float] = json.loads(line)
    return weights


def point(source: random.Random) -> list[float]:
    return [source.uniform(-1, 1), source.uniform(-1, 1), 1.0]


def side(weights: list[float] | tuple[float, ...], x: list[float]) -> bool:
    return sum(w * value for w, value in zip(weights, x, strict=True)) > 0


def trained(weights: list[float], batch: list[list[float]], rate: float) -> list[float]:
    for x in batch:
        error = side(BOUNDARY, x) - side(weights, x)
        weights = [w + rate * error * value for w, value in zip(weights, x, strict=True)]
    return weights


if __name__ == "__main__":
    main()
