"""Whom this machine is signed in as, and where that is kept."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path

from xmcloud.core.errors import InvalidInput, Unauthorized
from xmcloud.xm_cloud.credentials.credential_files import Kind, id_token, named_file, read_kind
from xmcloud.xm_cloud.credentials.credentials import Credentials, Fixed
from xmcloud.xm_cloud.credentials.google_identity import GoogleIdentity, KeptToken
from xmcloud.xm_cloud.credentials.id_token import IdToken
from xmcloud.xm_cloud.credentials.machine import (
    gcloud_id_token,
    has_gcloud,
    metadata_id_token,
    on_google,
)
from xmcloud.xm_cloud.credentials.private_files import read_private, write_private

LOGIN, ID_TOKEN = "login.json", "id-token.json"
_SIGN_IN = "Sign in again: xmcloud login URL"


class Method(StrEnum):
    """How one proves who one is."""

    ADC = "adc"
    METADATA = "metadata"
    GCLOUD = "gcloud"
    TOKEN = "token"  # noqa: S105 - no secret


@dataclass(frozen=True, slots=True)
class Login:
    """A control plane, and who one is there. `file` is of ADC, `token` of TOKEN.

    `audience` is what ID tokens are made out to, where that is not the address.
    """

    url: str
    method: Method
    file: Path | None = None
    token: str = field(default="", repr=False)
    project: str = ""
    audience: str = ""

    def __str__(self) -> str:
        match self.method:
            case Method.ADC:
                return f"Google's credentials {self.file}"
            case Method.METADATA:
                return "this machine's service account"
            case Method.GCLOUD:
                return "gcloud"
            case Method.TOKEN:
                return "an API token"


def read_login(home: Path) -> Login | None:
    """None when nobody is signed in. Raises `Unauthorized` for a file that is not safe."""
    path = home / LOGIN
    text = read_private(path)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Login(
            url=str(found["url"]),
            method=Method(found["method"]),
            file=Path(found["file"]) if found.get("file") else None,
            token=str(found.get("token", "")),
            project=str(found.get("project", "")),
            audience=str(found.get("audience", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Unauthorized(f"{path} does not tell who is signed in.", _SIGN_IN) from None


def keep_login(home: Path, login: Login) -> None:
    """In place of any before. Raises `Unauthorized` where it cannot be."""
    told = {
        "url": login.url,
        "method": login.method,
        "file": str(login.file) if login.file else None,
        "token": login.token,
        "project": login.project,
        "audience": login.audience,
    }
    text = json.dumps({name: value for name, value in told.items() if value}, indent=2)
    try:
        write_private(home / LOGIN, f"{text}\n")
    except OSError as error:
        raise Unauthorized(f"{home / LOGIN} cannot be written: {error.strerror}.") from None


def keep_token(home: Path, login: Login, token: IdToken) -> None:
    """For the next commands, until it expires."""
    kept_token(home, login).save(token)


def forget_login(home: Path) -> bool:
    """Whether somebody was signed in. Raises `Unauthorized`."""
    there = (home / LOGIN).exists()
    for name in (LOGIN, ID_TOKEN):
        try:
            (home / name).unlink(missing_ok=True)
        except OSError as error:
            detail = f"{home / name} cannot be removed: {error.strerror}."
            raise Unauthorized(detail) from None
    return there


def found_method(environ: Mapping[str, str] = os.environ) -> Method | None:
    """The first that this machine has something for."""
    if named_file(environ) is not None:
        return Method.ADC
    if on_google(environ):
        return Method.METADATA
    return Method.GCLOUD if has_gcloud() else None


def own_identity(url: str, environ: Mapping[str, str] = os.environ) -> Login | None:
    """That of a machine where nobody signed in, if it has one.

    Its tokens name the control plane that they are for; a person's do not, and so go nowhere
    that one has not signed in to. Raises `Unauthorized` for a file that is named and no good.
    """
    audience = environ.get("XMCLOUD_AUDIENCE", "")
    if environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        file = named_file(environ)
        if file is not None and read_kind(file) is not Kind.PERSON:
            return Login(url, Method.ADC, file, audience=audience)
        return None
    return Login(url, Method.METADATA, audience=audience) if on_google(environ) else None


def credentials_of(login: Login, home: Path) -> Credentials:
    """The same for the same, so that all of a process share its tokens."""
    if login.method is Method.TOKEN:
        return Fixed(login.token)
    return _shared(replace(login, project=""), home)


@cache
def _shared(login: Login, home: Path) -> GoogleIdentity:
    return google_identity(login, kept_token(home, login))


def google_identity(login: Login, kept: KeptToken | None = None) -> GoogleIdentity:
    """Raises `InvalidInput` for a method without an ID token."""
    audience = login.audience or login.url
    match login.method:
        case Method.ADC if login.file is not None:
            return GoogleIdentity(partial(id_token, login.file, audience), kept)
        case Method.METADATA:
            return GoogleIdentity(partial(metadata_id_token, audience), kept)
        case Method.GCLOUD:
            return GoogleIdentity(partial(gcloud_id_token, audience), kept)
    raise InvalidInput("method", login.method.value, "adc with a file, metadata or gcloud")


def kept_token(home: Path, login: Login) -> KeptToken:
    """A credential file that was written anew is another identity."""
    written = 0
    if login.file is not None:
        with suppress(OSError):
            written = login.file.stat().st_mtime_ns
    whose = f"{login.audience or login.url}\n{login.url}\n{login.method}\n{login.file}\n{written}"
    return KeptToken(home / ID_TOKEN, hashlib.sha256(whose.encode()).hexdigest())
