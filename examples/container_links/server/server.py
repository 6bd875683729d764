"""Tells visitors how often their page was seen; the numbers are in the store."""

import argparse
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TextIO

STORE_PORT = 7379


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store_host", required=True)
    parser.add_argument("--visits", type=int, required=True)
    options = parser.parse_args()
    with store(options.store_host) as lines:

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/") or "home"
                lines.write(f"add {name}\n")
                lines.flush()
                body = f"{name} was seen {int(lines.readline())} times\n".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        with HTTPServer(("", options.port), Page) as server:
            print(f"found {options.store_host}, listens on {options.port}")
            for _ in range(options.visits):
                server.handle_request()
        lines.write("end\n")
    if path := os.environ.get("XMCLOUD_RESULTS"):
        Path(path).write_text(json.dumps({"visits": options.visits}))


@contextmanager
def store(host: str) -> Iterator[TextIO]:
    """Waits until it is there."""
    while True:
        try:
            connection = socket.create_connection((host, STORE_PORT))
            break
        except OSError:
            time.sleep(0.1)
    with connection, connection.makefile("rw") as lines:
        yield lines


if __name__ == "__main__":
    main()
