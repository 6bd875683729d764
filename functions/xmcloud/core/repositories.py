"""Where a git repository is, in each of the ways that people write it."""

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, StringConstraints

from xmcloud.core.names import Text

_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_URL = re.compile(
    rf"(?P<scheme>https?|ssh)://(?:(?P<user>[^/]*)@)?{_HOST}(?::(?P<port>\d{{1,5}}))?/+(?P<path>[^/].*)"
)
_SCP = re.compile(rf"(?:(?P<user>[^/:]*(?::[^/@]*)?)@)?{_HOST}:(?!//)(?P<path>[^-:].*)")
_FILE = re.compile(r"file://(?P<path>/.+)")
_USER = re.compile(r"[A-Za-z0-9._~%+-]+")
_TOKEN = re.compile(r"gh[opsur]_|github_pat_|gl[a-z]*-|.{40}")
_SECRET = re.compile(r"://[^/\s@:]*:(?!\$\{)[^/\s@]+@")
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_REMEDY = "leave it out: workers have credentials of their own (`git` in their worker.json)"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one address. `host` is lower case, and empty for a file."""

    url: str
    scheme: str
    user: str
    host: str
    port: int | None
    path: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises `ValueError`, which never holds what may be secret."""
        if not url.isprintable():
            raise ValueError("a repository's address must hold no control characters")
        if found := _FILE.fullmatch(url):
            return cls(url, "file", "", "", None, found["path"])
        found = _URL.fullmatch(url)
        scheme = found["scheme"] if found else "ssh"
        if found is None and "://" not in url:
            found = _SCP.fullmatch(url)
        if found is None:
            raise ValueError(
                "a repository's address must be like https://host/path, ssh://git@host/path,"
                " git@host:path or file:///path"
            )
        user = found["user"] or ""
        _check_user(user, scheme)
        if scheme != "ssh" and "?" in found["path"]:
            raise ValueError(f"a repository's address must have no query: {_REMEDY}")
        given = found.groupdict().get("port")
        port = int(given) if given and int(given) != _PORTS[scheme] else None
        return cls(url, scheme, user, found["host"].lower(), port, found["path"])

    @property
    def key(self) -> str:
        """The same for all addresses of a repository that differ in the protocol alone."""
        path = self.path.strip("/").removesuffix(".git")
        port = f":{self.port}" if self.port else ""
        return f"{self.host or 'file'}{port}/{path}"

    def relative(self, url: str) -> str:
        """The address that a submodule's `../other` means; any other as it is."""
        if not url.startswith(("./", "../")):
            return url
        base, separator = self.url.rstrip("/"), "/"
        while url.startswith(("./", "../")):
            if url.startswith("../"):
                separator = "/" if "/" in base else ":"
                base = base.rpartition(separator)[0]
            url = url.partition("/")[2]
        return f"{base}{separator}{url}"


def _check_user(user: str, scheme: str) -> None:
    if ":" in user:
        raise ValueError(f"a repository's address must hold no password or token: {_REMEDY}")
    if scheme != "ssh" and _TOKEN.match(user):
        raise ValueError(f"a repository's address must hold no token in place of a user: {_REMEDY}")
    if user and not _USER.fullmatch(user):
        raise ValueError("the user in a repository's address has characters that none may have")


def _address(url: str) -> str:
    return Repository.parse(url).url


def _without_secrets(requirements: str) -> str:
    if _SECRET.search(requirements):
        raise ValueError(f"an address in the requirements must hold no password: {_REMEDY}")
    return requirements


RepositoryUrl = Annotated[Text, AfterValidator(_address)]
"""The address of a repository, without credentials."""

Requirements = Annotated[Text, AfterValidator(_without_secrets)]
"""Lines of a requirements.txt, without credentials; `${NAME}` may stand for them."""

Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
"""The full id of a commit."""
