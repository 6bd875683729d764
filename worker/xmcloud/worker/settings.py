"""What a worker needs to know: a flag wins over the environment, that over the settings file."""

import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    JsonValue,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from xmcloud.core.base import Model
from xmcloud.core.errors import XmcloudError
from xmcloud.core.names import Slug
from xmcloud.core.specs import Resources
from xmcloud.worker.eviction import LIMIT_BYTES
from xmcloud.worker.git.hosts import GitHost, HostName
from xmcloud.worker.gpu_choice import GpuChoice, of_nvidia
from xmcloud.worker.hours import Hours
from xmcloud.xm_cloud.credentials.login import read_login
from xmcloud.xm_cloud.places import Identity, identity_for

_SIGN_IN = "Set XMCLOUD_TOKEN, or sign in: xmcloud login URL"

_VARIABLES = {
    "url": "XMCLOUD_URL",
    "token": "XMCLOUD_TOKEN",
    "queue": "XMCLOUD_QUEUE",
    "project": "GOOGLE_CLOUD_PROJECT",
    "name": "XMCLOUD_WORKER_NAME",
    "pool": "XMCLOUD_WORKER_POOL",
    "queues": "XMCLOUD_WORKER_QUEUES",
    "slots": "XMCLOUD_WORKER_SLOTS",
    "gpus": "XMCLOUD_WORKER_GPUS",
    "order": "XMCLOUD_WORKER_ORDER",
    "hours": "XMCLOUD_WORKER_HOURS",
    "address": "XMCLOUD_WORKER_ADDRESS",
    "container_host": "XMCLOUD_WORKER_CONTAINER_HOST",
    "container_network": "XMCLOUD_WORKER_CONTAINER_NETWORK",
    "container_user": "XMCLOUD_WORKER_CONTAINER_USER",
    "gcs_root": "XMCLOUD_WORKER_GCS_ROOT",
    "checkpoints": "XMCLOUD_WORKER_CHECKPOINTS",
    "cache_limit_bytes": "XMCLOUD_WORKER_CACHE_LIMIT_BYTES",
}


class InvalidSettings(XmcloudError):
    """A setting of the worker is missing or holds a value that is not allowed."""

    slug, title = "invalid-settings", "The worker's settings are not usable"
    status: ClassVar[int] = 422


class WorkerSettings(Model):
    """One worker process of this machine."""

    url: Annotated[str, Field(pattern=r"^https?://[^/]+")]
    token: SecretStr | None = Field(None, description="Null: the machine's own identity.")
    name: Slug
    pool: Slug = "local"
    queues: Annotated[tuple[Slug, ...], Field(min_length=1, max_length=20)] = (
        "high",
        "default",
        "low",
    )
    order: Literal["strict", "fair"] = Field(
        "strict", description="Strict: the first queue first. Fair: queues share by weight."
    )
    weights: dict[Slug, Annotated[float, Field(gt=0)]] = Field(
        {}, description="Of queues that are shared fairly; 1 unless set."
    )
    hours: str = Field("", description="When it takes jobs: 'mon-fri 20:00-08:00, sat'.")
    slots: Annotated[int, Field(ge=1, le=1000)] = 1
    gpus: GpuChoice = Field(
        GpuChoice(), description="For jobs: 'all', 'none', numbers or UUIDs: '0,1'."
    )
    resources: Resources = Field({}, description="Announced in place of what the machine has.")
    address: Annotated[str, Field(max_length=255)] = Field(
        "", description="Where other workers reach its jobs; '': that of the way to the API."
    )
    container_host: str = Field(
        "", description="The engine's socket; '': that of DOCKER_HOST or this machine."
    )
    container_network: str = Field(
        "", description="For containers; '': the engine's bridge if it has one, else 'host'."
    )
    container_user: Literal["", "worker", "image"] = Field(
        "", description="Whom containers run as; '': 'worker' unless it or the engine is special."
    )
    gcs_root: Path | None = Field(None, description="What containers may see below /gcs.")
    checkpoints: Path | None = Field(
        None, description="Folder of checkpoints, best one that the workers of a pool share."
    )
    git: dict[HostName, GitHost] = Field({}, description="Hosts of repositories, and tokens.")
    queue: Literal["api", "pubsub"] = "api"
    project: str = Field("", description="The Google Cloud project whose Pub/Sub to pull from.")
    home: Path
    cache: Path
    cache_limit_bytes: Annotated[int, Field(ge=0)] = Field(
        LIMIT_BYTES, description="What is used least recently goes when `cache` holds more."
    )
    disk_floor_bytes: Annotated[int, Field(ge=0)] = Field(
        512 * 1024 * 1024, description="Takes no job while less is free."
    )

    @field_validator("queues", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(value.split(",")) if isinstance(value, str) else value

    @field_validator("gpus", mode="before")
    @classmethod
    def _parse_gpus(cls, value: object) -> object:
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        return GpuChoice.parse(str(text)) if isinstance(text, str | int) else text

    @model_validator(mode="after")
    def _pubsub_has_a_project(self) -> Self:
        if self.queue == "pubsub" and not self.project:
            raise ValueError("XMCLOUD_QUEUE=pubsub needs GOOGLE_CLOUD_PROJECT")
        return self

    @field_validator("hours")
    @classmethod
    def _are_hours(cls, text: str) -> str:
        if text:
            Hours.parse(text)
        return text

    def identity(self) -> Identity:
        """Who the worker is at its control plane. Raises InvalidSettings and `Unauthorized`."""
        token = {"XMCLOUD_TOKEN": self.token.get_secret_value()} if self.token else {}
        found = identity_for(self.url.rstrip("/"), self.home, {**os.environ, **token}, ())
        if found is None:
            raise InvalidSettings(f"No identity is known for {self.url}.", _SIGN_IN)
        return found

    @property
    def folder(self) -> Path:
        return self.home / "workers" / self.name

    @property
    def checkpoints_folder(self) -> Path:
        """Each job has one below."""
        return self.checkpoints or self.home / "checkpoints"


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str]) -> WorkerSettings:
    """Flags that are None are absent; the settings file is `<home>/worker.json`.

    Raises InvalidSettings.
    """
    home = Path(flags.get("home") or environment.get("XMCLOUD_HOME") or "~/.local/share/xmcloud")
    home = home.expanduser().absolute()
    in_file = _object_in(home / "worker.json")
    told = flags.get("cache") or environment.get("XMCLOUD_CACHE") or in_file.get("cache")
    cache = Path(str(told or "~/.cache/xmcloud")).expanduser().absolute()
    variables = {
        key: environment[name] for key, name in _VARIABLES.items() if environment.get(name)
    }
    variables |= _gpus(environment)
    given = {key: value for key, value in flags.items() if value is not None}
    values: dict[str, Any] = {
        "name": _machine_name(),
        **in_file,
        **variables,
        **given,
        "home": home,
        "cache": cache,
    }
    if "url" not in values:
        values["url"] = known_url(home)
    if not values["url"]:
        raise InvalidSettings(
            f"No control plane is known: neither XMCLOUD_URL nor {home / 'control.json'}.",
            "Start one on this machine with `xmcloud up`, or sign in: xmcloud login URL",
        )
    if "token" not in values and not has_identity(str(values["url"]), home, environment):
        values["token"] = _token(home / "token")
    try:
        return WorkerSettings.model_validate(values)
    except ValidationError as error:
        raise InvalidSettings(_first(error), "Correct it and start the worker again.") from None


def known_url(home: Path) -> str:
    """Of the control plane that one is signed in to, else of the one here; '' for none.

    Raises `Unauthorized`.
    """
    login = read_login(home)
    return login.url if login else str(_object_in(home / "control.json").get("url") or "")


def has_identity(url: str, home: Path, environment: Mapping[str, str]) -> bool:
    """Whether one can prove there who one is, without a token of the worker's own.

    The token in the home is for the control plane of this machine, and for the one that
    `worker.json` names. Raises InvalidSettings and `Unauthorized`.
    """
    url = url.rstrip("/")
    login = read_login(home)
    if login is not None and login.url == url:
        return True
    own = [_object_in(home / name).get("url") for name in ("control.json", "worker.json")]
    if (home / "token").exists() and url in own:
        return False
    return identity_for(url, home, environment, ()) is not None


def _gpus(environment: Mapping[str, str]) -> dict[str, str]:
    """Here, other than elsewhere, an empty variable says something: none."""
    if (own := environment.get(_VARIABLES["gpus"])) is not None:
        return {"gpus": own}
    if (nvidia := environment.get("NVIDIA_VISIBLE_DEVICES")) is not None:
        return {"gpus": of_nvidia(nvidia, contained=_in_container(environment))}
    return {}


def _in_container(environment: Mapping[str, str]) -> bool:
    files = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return "KUBERNETES_SERVICE_HOST" in environment or any(file.exists() for file in files)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    shown = "hidden" if field == "token" else repr(first["input"])
    return f"Setting {field!r} ({shown}): {first['msg']}."


def _object_in(path: Path) -> dict[str, JsonValue]:
    try:
        return _OBJECT.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise InvalidSettings(f"{path} does not hold a JSON object.", "Correct it.") from error


def _token(path: Path) -> str:
    """The token in a file that nobody else can read."""
    try:
        with path.open(encoding="utf-8") as file:
            facts = os.fstat(file.fileno())
            token = file.read().strip()
    except FileNotFoundError:
        raise InvalidSettings(
            f"No token is known: neither XMCLOUD_TOKEN nor {path}.", _SIGN_IN
        ) from None
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise InvalidSettings(
            f"{path} belongs to another user or can be read by others.",
            f"If you trust its content: chown $USER {path} && chmod 600 {path}",
        )
    return token


def _machine_name() -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().split(".")[0].lower()).strip("-")
    return slug[:63] if slug[:1].isalpha() else f"worker-{slug}"[:63].strip("-")


_OBJECT = TypeAdapter(dict[str, JsonValue])
