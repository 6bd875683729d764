"""One of equal workers: each has a shard of the data, and all have the same weights."""

from itertools import islice

from .cluster import Cluster, Peer
from .model import TRUE_WEIGHTS, gradient, learning_rate, loss, moved, report, shard

STEPS = 100


def main() -> None:
    cluster, rate = Cluster(), learning_rate()
    count = len(cluster.addresses["worker"])
    inputs = shard(cluster.index, count)
    if cluster.index == 0:
        others, first = list(islice(cluster.peers(), count - 1)), None
    else:
        others, first = [], cluster.connect("worker")
    weights = [0.0] * len(TRUE_WEIGHTS)
    for _ in range(STEPS):
        own = gradient(weights, inputs)
        weights = moved(weights, exchanged(own, first) if first else averaged(own, others), rate)
    report(loss=loss(weights, shard(0, 1)), workers=count)


def averaged(own: list[float], others: list[Peer]) -> list[float]:
    """Of all workers; tells it to them."""
    all_of_them = [own, *(other.receive() for other in others)]
    average = [sum(values) / len(all_of_them) for values in zip(*all_of_them, strict=True)]
    for other in others:
        other.send(average)
    return average


def exchanged(own: list[float], first: Peer) -> list[float]:
    """The average, from the worker that makes it."""
    first.send(own)
    average: list[float] = first.receive()
    return average


if __name__ == "__main__":
    main()
