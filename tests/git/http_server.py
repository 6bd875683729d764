"""Serves the repositories below a folder over http or https, to those who know the password.

Run with: ROOT USER PASSWORD [CERTIFICATE]. It prints its port, then each request as JSON, with
the command lines of all processes at that moment.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil


class Handler(BaseHTTPRequestHandler):
    root = ""
    expected = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get("Authorization", "")
        if self.path.startswith("/private") and given != self.expected:
            self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"no")
            return
        if self.path.endswith("/info/lfs/objects/batch"):
            self._offer(json.loads(body)["objects"])
            return
        if self.path.startswith("/large/"):
            self._answer(200, {}, Path(self.root, self.path[1:]).read_bytes())
            return
        run = ["git", "http-backend"]
        done = subprocess.run(run, input=body, env=self._cgi(), capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self._answer(int(headers.pop("Status", "200").split()[0]), headers, content)

    do_POST = do_GET  # noqa: N815 - so named by http.server

    def _offer(self, objects: list[dict[str, object]]) -> None:
        """Where large files are, by Git LFS's batch protocol; there are those below `large`."""
        start = f"http://{self.headers['Host']}/large"
        for item in objects:
            if Path(self.root, "large", str(item["oid"])).exists():
                item["actions"] = {"download": {"href": f"{start}/{item['oid']}"}}
            else:
                item["error"] = {"code": 404, "message": "no such object"}
        answer = json.dumps({"transfer": "basic", "objects": objects})
        self._answer(200, {"Content-Type": "application/vnd.git-lfs+json"}, answer.encode())

    def _cgi(self) -> dict[str, str]:
        path, _, query = self.path.partition("?")
        return {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": self.headers.get("Content-Length", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        running = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
        argv = [
            word for cmdline in running if cmdline for word in cmdline if self.root not in cmdline
        ]
        request = {"method": self.command, "path": self.path, "status": code, "argv": argv}
        tell(json.dumps(request))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(root: str, user: str, password: str, certificate: str = "") -> None:
    Handler.root = root
    Handler.expected = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        tell(str(server.server_port))
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
