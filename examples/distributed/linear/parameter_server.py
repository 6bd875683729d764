"""A chief, workers with a shard of the data each, or a server that has the weights."""

import threading

from .cluster import Cluster, Peer
from .model import TRUE_WEIGHTS, gradient, learning_rate, loss, moved, report, shard

STEPS = 100


class Weights:
    """What the server has: any worker may change it at any time."""

    def __init__(self) -> None:
        self.values = [0.0] * len(TRUE_WEIGHTS)
        self.changes = 0
        self.changed = threading.Condition()

    def move(self, by: list[float], rate: float) -> None:
        with self.changed:
            self.values = moved(self.values, by, rate)
            self.changes += 1
            self.changed.notify_all()

    def after(self, changes: int) -> list[float]:
        """As they are then, at the earliest."""
        with self.changed:
            self.changed.wait_for(lambda: self.changes >= changes)
            return self.values


def serve(cluster: Cluster) -> None:
    weights, rate = Weights(), learning_rate()
    clients = 1 + len(cluster.addresses["worker"])
    threads = []
    for peer in cluster.peers():
        threads.append(threading.Thread(target=answer, args=(peer, weights, rate)))
        threads[-1].start()
        if len(threads) == clients:
            break
    for thread in threads:
        thread.join()
    print(f"served {clients} clients, {weights.changes} changes")


def answer(peer: Peer, weights: Weights, rate: float) -> None:
    """A number asks for the weights after so many changes; a list is a gradient."""
    while (message := peer.receive()) is not None:
        if isinstance(message, list):
            weights.move(message, rate)
        else:
            peer.send(weights.after(message))


def work(cluster: Cluster) -> None:
    server, inputs = cluster.connect("ps"), shard(cluster.index, len(cluster.addresses["worker"]))
    for _ in range(STEPS):
        server.send(0)
        server.send(gradient(server.receive(), inputs))


def lead(cluster: Cluster) -> None:
    workers = len(cluster.addresses["worker"])
    server = cluster.connect("ps")
    server.send(STEPS * workers)
    report(loss=loss(server.receive(), shard(0, 1)), workers=workers)


def main() -> None:
    cluster = Cluster()
    {"chief": lead, "worker": work, "ps": serve}[cluster.type](cluster)


if __name__ == "__main__":
    main()
