"""The machines that TF_CONFIG names, and messages between them: one JSON value a line."""

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any


class Peer:
    """The other end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rw", encoding="utf-8")

    def send(self, value: Any) -> None:
        self._file.write(f"{json.dumps(value)}\n")
        self._file.flush()

    def receive(self) -> Any:
        """None when the other one has gone."""
        line = self._file.readline()
        return json.loads(line) if line else None


class Cluster:
    """All tasks by type, and which of them this process is."""

    def __init__(self) -> None:
        config = json.loads(os.environ["TF_CONFIG"])
        self.addresses: dict[str, list[str]] = config["cluster"]
        self.type: str = config["task"]["type"]
        self.index: int = config["task"]["index"]
        print(f"{self.type} {self.index} of {json.dumps(self.addresses)}")

    def peers(self) -> Iterator[Peer]:
        """Those that connect to this task, as they come."""
        host_and_port = self.addresses[self.type][self.index]
        with socket.create_server(("", int(host_and_port.rpartition(":")[2]))) as server:
            while True:
                yield Peer(server.accept()[0])

    def connect(self, kind: str, index: int = 0) -> Peer:
        """Waits until that task is there."""
        host, _, port = self.addresses[kind][index].rpartition(":")
        while True:
            try:
                return Peer(socket.create_connection((host, int(port))))
            except OSError:
                time.sleep(0.1)
