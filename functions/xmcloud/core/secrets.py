"""Secrets of a project: named values that only the processes of jobs receive."""

from typing import Annotated, Protocol

from pydantic import Field, SecretStr

from xmcloud.core.base import Model, Time
from xmcloud.core.errors import NotFound, XmcloudError
from xmcloud.core.names import EnvName, Slug, Title

VALUE_LIMIT = 64 * 1024
"""Bytes of a value, which is what Secret Manager takes."""

SHORTEST = 4
"""Characters of a value: a shorter one could not be masked without masking half of a log."""


class Secrets(Protocol):
    """Values by project and name, kept encrypted. Who set them, and when, is in the store.

    Names are `Slug`s. What `put` answered is what `get` returns, from every process, also after
    this one was killed. Nothing of a value stands in an error.
    """

    async def put(self, project: str, name: str, value: bytes) -> None:
        """Keeps the value in place of an earlier one; readers see the old or the new.

        At most `VALUE_LIMIT` bytes. Durable when it returns. Raises `Unavailable` and
        `SecretsUnreadable`.
        """

    async def get(self, project: str, name: str) -> bytes:
        """Raises `SecretMissing`, `Unavailable` and `SecretsUnreadable`."""

    async def delete(self, project: str, name: str) -> None:
        """Forgets it for good; idempotent. Raises `Unavailable` and `SecretsUnreadable`."""

    async def close(self) -> None:
        """Releases connections."""


class SecretMissing(NotFound):
    """A project has no secret of that name."""

    slug, title = "secret-missing", "No such secret"

    def __init__(self, project: str, name: str) -> None:
        where = "" if project == "default" else f" --project {project}"
        super().__init__("secret", name, f"Set it: xmcloud secret set {name}{where}")
        self.detail = f"Project {project} has no secret {name!r}."


class UnusableValue(XmcloudError):
    """A value that cannot be kept; says why, and nothing of the value."""

    slug, title, status = "unusable-secret", "This value cannot be a secret", 422


class SecretsUnreadable(XmcloudError):
    """The secrets of an embedded control plane, or their key, are damaged or seen by others."""

    slug, title, status = "unreadable-secrets", "The secrets cannot be read", 500


class NoSecrets(XmcloudError):
    """This control plane keeps no secrets."""

    slug, title, status = "no-secrets", "No secrets here", 409


class Secret(Model):
    """That there is a secret, and who set it when; its value is elsewhere."""

    project: Slug
    name: Slug
    set_by: Title
    set_at: Time
    removed: bool = False

    @property
    def key(self) -> str:
        return secret_key(self.project, self.name)


class SecretStatus(Model):
    """What is told of a secret."""

    project: Slug
    name: Slug
    set_by: Title
    set_at: Time

    @classmethod
    def of(cls, secret: Secret) -> "SecretStatus":
        return cls.model_validate(secret.model_dump(exclude={"removed"}))


class SecretList(Model):
    """The secrets of a project, by name."""

    secrets: list[SecretStatus]


class NewSecret(Model):
    """A value to be kept. It is told to nobody but the processes of jobs."""

    value: SecretStr = Field(description="Text that an environment variable can hold.")


SecretNames = dict[EnvName, Slug]
"""Environment variables, and the secrets of the job's project whose values they get."""


class ResolvedSecrets(Model):
    """The values for one attempt, by environment variable."""

    values: Annotated[dict[EnvName, str], Field(repr=False)]


def secret_key(project: str, name: str) -> str:
    """Names it among those of all projects: slugs have no underscore."""
    return f"{project}_{name}"


def checked_value(value: str) -> bytes:
    """The bytes of a value. Raises `UnusableValue`."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise UnusableValue(
            "The value is no valid text.", "Encode it, in base64 for example."
        ) from None
    if "\0" in value:
        raise UnusableValue(
            "The value holds a NUL character, which no environment variable can.",
            "Encode it, in base64 for example.",
        )
    if len(data) > VALUE_LIMIT:
        raise UnusableValue(
            f"The value has {len(data):,} bytes; the limit is {VALUE_LIMIT:,}.",
            "Encrypt the data with a key, and make the key the secret.",
        )
    if len(value.strip()) < SHORTEST:
        raise UnusableValue(
            f"The value has fewer than {SHORTEST} characters, blanks around it left out: masking"
            " it in a log would mask much else.",
            "Take a longer one.",
        )
    return data
