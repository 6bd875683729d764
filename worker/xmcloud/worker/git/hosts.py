"""What the settings say about the hosts of git repositories: tokens, and the way to take."""

import base64
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote

from pydantic import Field, model_validator

from xmcloud.core.base import Model
from xmcloud.core.names import Text
from xmcloud.core.repositories import Repository
from xmcloud.worker.setup import SetupFailed

HostName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
_HELPER = (
    '!f() { test "$1" = get || exit 0;'
    ' printf "username=%s\\npassword=%s\\n" "$XMCLOUD_GIT_USER_#" "$XMCLOUD_GIT_TOKEN_#"; }; f'
)


class GitHost(Model):
    """How to fetch from a host, whatever protocol the addresses of its repositories name."""

    over: Literal["https", "ssh"] = "https"
    token: Annotated[str, Field(pattern=r"^(XMCLOUD_[A-Z0-9_]+|~?/.+)?$")] = Field(
        "", description="An environment variable of the worker, or a file, that holds the token."
    )
    user: Text = Field("", description="'': git over ssh; x-access-token with a token.")
    port: Annotated[int, Field(ge=1, le=65535)] | None = None

    @model_validator(mode="after")
    def _tokens_go_over_https(self) -> Self:
        if self.token and self.over == "ssh":
            raise ValueError("a token is used over https: leave out `over` or `token`")
        return self


@dataclass(frozen=True, slots=True)
class Credentials:
    """Git settings and variables that lend credentials to the commands that inherit them."""

    settings: list[tuple[str, str]]
    variables: dict[str, str]
    secrets: list[str]


class Hosts:
    """The hosts that the settings know. `environment` has the variables that hold tokens."""

    def __init__(self, hosts: Mapping[str, GitHost], environment: Mapping[str, str]) -> None:
        self._hosts = hosts
        self._environment = environment

    def address(self, repository: Repository) -> str:
        """Where to fetch a repository from."""
        host = self._of(repository)
        if host is None or (host.over == repository.scheme and not host.token):
            return repository.url
        return f"{_start(repository.host, host)}{repository.path.lstrip('/')}"

    def lent_for(self, repository: Repository) -> Credentials:
        """What is needed to fetch it. Raises `SetupFailed`."""
        host = self._of(repository)
        return self._lend({repository.host: host} if host else {})

    def lent_for_requirements(self, requirements: str) -> Credentials:
        """What is needed for the repositories among them. Raises `SetupFailed`."""
        lines = [line.lower() for line in requirements.splitlines() if "git+" in line]
        return self._lend(
            {name: host for name, host in self._hosts.items() if any(name in x for x in lines)}
        )

    def _of(self, repository: Repository) -> GitHost | None:
        """Its host, with the port that the address names unless the settings name one."""
        host = self._hosts.get(repository.host)
        if host is None or host.port or repository.scheme != host.over:
            return host
        return host.evolve(port=repository.port)

    def _lend(self, hosts: Mapping[str, GitHost]) -> Credentials:
        lent = Credentials([], {}, [])
        for number, (name, host) in enumerate(hosts.items()):
            start = _start(name, host)
            instead = f"url.{start}.insteadOf"
            lent.settings.extend((instead, other) for other in _others(name, host))
            if host.token:
                token, user = self._token(name, host.token), host.user or "x-access-token"
                key = f"credential.{start.removesuffix('/')}.helper"
                # The empty one first: the machine's own helpers shall not store the token.
                lent.settings.extend((key, x) for x in ("", _HELPER.replace("#", str(number))))
                lent.variables[f"XMCLOUD_GIT_USER_{number}"] = user
                lent.variables[f"XMCLOUD_GIT_TOKEN_{number}"] = token
                lent.secrets.extend(_spellings(user, token))
        return lent

    def _token(self, host: str, where: str) -> str:
        if where.startswith("XMCLOUD_"):
            token = self._environment.get(where, "")
            missing = f"the variable {where} is not set where the worker was started"
        else:
            token, missing = _in_file(Path(where).expanduser())
        if not token:
            raise SetupFailed(
                f"Cannot use the git token of {host}: {missing}. Put the token there,"
                " or correct `git` in the worker's worker.json."
            )
        return token


def _in_file(path: Path) -> tuple[str, str]:
    """The token and '', or '' and why there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            facts = os.fstat(file.fileno())
            token = file.read().strip()
    except OSError as error:
        return "", f"{path}: {error.strerror}"
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        return "", f"{path} belongs to another user or can be read by others (chmod 600)"
    return token, f"{path} is empty"


def _start(name: str, host: GitHost) -> str:
    port = f":{host.port}" if host.port else ""
    if host.over == "https":
        return f"https://{name}{port}/"
    return f"ssh://{host.user or 'git'}@{name}{port}/"


def _others(name: str, host: GitHost) -> Iterator[str]:
    """How addresses begin that mean the same host."""
    own = _start(name, host)
    starts = [f"git@{name}:", f"http://{name}/", f"https://{name}/", f"https://git@{name}/"]
    starts += [f"ssh://{user}{name}{port}/" for user in ("git@", "") for port in ("", ":22")]
    return (start for start in starts if start != own)


def _spellings(user: str, token: str) -> Iterator[str]:
    yield token
    yield quote(token, safe="")
    yield base64.b64encode(f"{user}:{token}".encode()).decode()
