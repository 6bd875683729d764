"""A container registry on loopback, whose images leave with it."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import running

_LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")


@contextmanager
def running_registry(folder: Path) -> Iterator[str]:
    """Yields its address, HOST:PORT; a Docker engine needs no certificate on loopback."""
    config = folder / "registry.json"
    config.write_text(json.dumps(_settings(folder / "images")))
    argv = ["setpriv", "--pdeathsig", "TERM", "docker-registry", "serve", str(config)]
    with running(argv, folder / "registry.log", os.environ) as server:
        server.ready(lambda: _LISTENING.search(server.output) is not None)
        listening = _LISTENING.search(server.output)
        assert listening is not None
        yield listening[1]


def _settings(images: Path) -> dict[str, object]:
    return {
        "version": "0.1",
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(images)}, "delete": {"enabled": True}},
        "http": {"addr": "127.0.0.1:0"},
    }
