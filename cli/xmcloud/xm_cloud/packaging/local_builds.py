"""Images that are made by the Docker engine of this machine."""

import re
import textwrap
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcloud.core.errors import XmcloudError
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.packaging.contexts import DOCKERFILE
from xmcloud.xm_cloud.packaging.images import LAST_LINES, BuildFailed, Say

if TYPE_CHECKING:
    from docker import DockerClient

PARALLEL = 4
QUIET_SECONDS = 1.0
"""A build that takes no longer says nothing of its steps."""

_LOADED = re.compile(r"^Loaded image(?: ID)?: (\S+)", re.MULTILINE)
_CHATTER = re.compile(r" ---> |Removing intermediate container ")
_STEP = re.compile(r"Step (\d+/\d+) : (.*)")


class PushFailed(XmcloudError):
    """A registry did not take an image."""

    slug, title, status = "push-failed", "An image was not pushed", 422

    def __init__(self, image: str, message: str) -> None:
        super().__init__(
            f"{image} was not pushed: {message}.",
            "See that you may write there: docker login, or gcloud auth configure-docker.",
        )


class EngineRefused(XmcloudError):
    """The engine did not do what it was asked for."""

    slug, title, status = "engine-refused", "The Docker engine refused", 422


class LocalEngine:
    """A Docker engine that answers; may be used by several threads at once."""

    def __init__(
        self, client: "DockerClient", say: Say, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._say, self._now = client, say, now
        self._closed = False
        self._places = threading.BoundedSemaphore(PARALLEL)
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def close(self) -> None:
        """Also ends what is under way, at its next word."""
        self._closed = True
        self._client.close()

    def build(self, name: str, context: Spool) -> str:
        """The tag of the image, which is built unless it is there. Raises BuildFailed."""
        tag = f"xmcloud/{name}:{context.digest[:16]}"
        with self._turns[tag], self._places:
            if self._has(tag):
                self._say(f"image {name}: already built ({tag})")
                return tag
            build = _Run(name, self._say, self._now)
            with self._translated(build.failure):
                for event in self._client.api.build(
                    fileobj=context.file,
                    custom_context=True,
                    encoding="gzip",
                    dockerfile=DOCKERFILE,
                    tag=tag,
                    rm=True,
                    forcerm=True,
                    network_mode=self._network(),
                    decode=True,
                ):
                    build.hear(event)
                    if self._closed:
                        raise build.failure("it was interrupted")
            build.end()
        return tag

    def load(self, name: str, archive: Path) -> str:
        """The tag of the image in an archive, loaded unless it is there. Raises EngineRefused."""
        tag = f"xmcloud/{name}:{_digest(archive)[:16]}"
        with self._turns[tag]:
            if self._has(tag):
                self._say(f"image {name}: already loaded ({tag})")
                return tag
            self._client.api.tag(self._loaded(archive), tag)
        return tag

    def _loaded(self, archive: Path) -> str:
        """What an archive's one image is called now."""
        with self._translated(_not_loaded(archive)), archive.open("rb") as file:
            events = self._client.api.load_image(file)  # type: ignore[no-untyped-call]
            told = [event.get("stream", "") or event.get("error", "") for event in events]
        names = _LOADED.findall("".join(told))
        if len(names) != 1:
            raise EngineRefused(
                f"{archive} is no archive of one image: {''.join(told).strip() or 'it is empty'}.",
                "Make it with docker save.",
            )
        return str(names[0])

    def tag(self, tag: str, target: str) -> str:
        """Another name for an image, which it is called then. Raises EngineRefused."""
        repository, version = _parts(target)
        with self._translated(lambda message: EngineRefused(f"No tag {target}: {message}")):
            self._client.api.tag(tag, repository, version)
        return f"{repository}:{version}"

    def push(self, tag: str, target: str) -> str:
        """The image by digest, in the registry that `target` names. Raises PushFailed."""
        repository, version = _parts(target)
        digest = error = ""
        with self._translated(lambda message: PushFailed(target, message)):
            self._client.api.tag(tag, repository, version)
            for event in self._client.api.push(repository, version, stream=True, decode=True):
                error = event.get("error", error)
                digest = event.get("aux", {}).get("Digest", digest)
        if error:
            raise PushFailed(target, error.rstrip("."))
        return f"{repository}@{digest}" if digest else target

    def _has(self, tag: str) -> bool:
        from docker.errors import ImageNotFound

        try:
            self._client.images.get(tag)
        except ImageNotFound:
            return False
        return True

    def _network(self) -> str | None:
        """An engine without a bridge builds on the network of its machine."""
        return None if self._client.networks.list(names=["bridge"]) else "host"

    @contextmanager
    def _translated(self, error_of: Callable[[str], XmcloudError]) -> Iterator[None]:
        import requests
        from docker.errors import DockerException

        try:
            yield
        except (DockerException, requests.RequestException) as error:
            raise error_of(str(getattr(error, "explanation", None) or error)) from None


class _Run:
    """A build under way: its step, its last lines, and what is said of it."""

    def __init__(self, name: str, say: Say, now: Callable[[], float]) -> None:
        self._name, self._say, self._now = name, say, now
        self._start = now()
        self._step = self._said = self._error = ""
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    def hear(self, event: Mapping[str, Any]) -> None:
        for line in str(event.get("stream", "")).splitlines():
            if line.strip() and not _CHATTER.match(line):
                self._lines.append(line.rstrip())
            if found := _STEP.fullmatch(line.strip()):
                self._step = f"{found[1]}: {found[2]}"
        self._error = str(event.get("error", self._error))
        if self._step != self._said and self._now() - self._start >= QUIET_SECONDS:
            self._said = self._step
            self._say(f"image {self._name}: step {textwrap.shorten(self._step, 100)}")

    def failure(self, message: str) -> BuildFailed:
        self._say(f"image {self._name}: failed ({self._now() - self._start:.0f} s)")
        step = f"step {self._step}" if self._step else ""
        return BuildFailed(self._name, step, message.strip().rstrip("."), tuple(self._lines))

    def end(self) -> None:
        """Raises BuildFailed if it told of an error."""
        if self._error:
            raise self.failure(self._error)
        took = self._now() - self._start
        if took >= QUIET_SECONDS:
            self._say(f"image {self._name}: built ({took:.0f} s)")


def _parts(target: str) -> tuple[str, str]:
    """The repository and the version of an image."""
    from docker.utils import parse_repository_tag

    repository, version = parse_repository_tag(target)
    return repository, version or "latest"


def _not_loaded(archive: Path) -> Callable[[str], XmcloudError]:
    return lambda message: EngineRefused(f"{archive} was not loaded: {message}")


def _digest(file: Path) -> str:
    import hashlib

    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
