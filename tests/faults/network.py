"""Machines of their own on one machine: network namespaces, each with a cable to this one."""

import os
import secrets
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


def missing_for_namespaces() -> str:
    """What is needed; '' when it is there."""
    if shutil.which("ip") is None:
        return "network namespaces: `ip` is missing: apt-get install iproute2"
    if os.geteuid() != 0:
        return "network namespaces: run the tests as root"
    made = _ip("netns", "add", name := f"xmcloud-{secrets.token_hex(4)}", check=False)
    if made.returncode != 0:
        return f"network namespaces: this machine does not allow them: {made.stderr.strip()}"
    _ip("netns", "delete", name)
    return ""


class Cable:
    """A namespace, and the two ends of a cable: `here` in this one, `there` in the other."""

    def __init__(self, number: int) -> None:
        mark = secrets.token_hex(4)
        self.namespace = f"xmcloud-{mark}"
        self.here, self.there = f"xh{mark}", f"xt{mark}"
        self.address = f"198.18.{number}.1"
        """Of this end."""
        self._other = f"198.18.{number}.2"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Runs a command there."""
        return ("ip", "netns", "exec", self.namespace)

    def lay(self) -> None:
        _ip("netns", "add", self.namespace)
        peer = ("peer", "name", self.there, "netns", self.namespace)
        _ip("link", "add", self.here, "type", "veth", *peer)
        _ip("address", "add", f"{self.address}/30", "dev", self.here)
        self._there("address", "add", f"{self._other}/30", "dev", self.there)
        self._there("link", "set", "lo", "up")
        self.heal()

    def unplug(self) -> None:
        """The machine there sees that it has no network any more."""
        self._there("link", "set", self.there, "down")

    def swallow(self) -> None:
        """What is sent gets lost; nobody there is told."""
        _ip("link", "set", self.here, "down")

    def heal(self) -> None:
        _ip("link", "set", self.here, "up")
        self._there("link", "set", self.there, "up")

    def remove(self) -> None:
        _ip("link", "delete", self.here, check=False)
        _ip("netns", "delete", self.namespace, check=False)

    def _there(self, *words: str) -> None:
        _ip("-netns", self.namespace, *words)


@contextmanager
def cable(number: int) -> Iterator[Cable]:
    """The cables of one test have different numbers."""
    made = Cable(number)
    try:
        made.lay()
        yield made
    finally:
        made.remove()


def _ip(*words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Relay(ThreadingTCPServer):
    """Lets others reach a port of loopback at an address of this machine."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: str, port: int) -> None:
        self.target = ("127.0.0.1", port)
        super().__init__((address, port), _Relayed)


class _Relayed(BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with suppress(OSError), socket.create_connection(self.server.target) as onwards:
            back = threading.Thread(target=_copy, args=(onwards, self.request), daemon=True)
            back.start()
            _copy(self.request, onwards)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until either ends; the other is ended too."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(address: str, port: int) -> Iterator[str]:
    """The URL at that address."""
    with Relay(address, port) as relay:
        threading.Thread(target=relay.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://{address}:{port}"
        relay.shutdown()
