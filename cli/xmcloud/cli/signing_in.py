"""What `xmcloud login` and `xmcloud whoami` find out."""

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from xmcloud.cli.documents import WhoAmI
from xmcloud.cli.failures import parsing
from xmcloud.core.errors import InvalidInput, Unauthorized, XmcloudError
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.member_protocol import NewProject
from xmcloud.xm_cloud.credentials.credential_files import named_file, read_kind
from xmcloud.xm_cloud.credentials.credentials import Credentials, Fixed
from xmcloud.xm_cloud.credentials.google_identity import GoogleIdentity
from xmcloud.xm_cloud.credentials.login import (
    Login,
    Method,
    forget_login,
    found_method,
    google_identity,
    keep_login,
    keep_token,
)
from xmcloud.xm_cloud.identity_client import IdentityClient
from xmcloud.xm_cloud.places import address, checked_url, current_project, home, safe

_NO_METHOD = """\
Run `gcloud auth application-default login`, or give --credentials FILE or --token -."""


class NoTerraform(XmcloudError):
    """Terraform does not tell where the API is."""

    slug, title, status = "no-terraform", "Nothing was applied there", 422


def terraform_outputs(folder: Path) -> tuple[str, str]:
    """`api_url`, and `audience` or ''. Raises NoTerraform."""
    program = shutil.which("terraform")
    if program is None:
        raise NoTerraform("There is no terraform on the PATH.", "Install it, or give the URL.")
    done = subprocess.run(
        [program, f"-chdir={folder}", "output", "-json"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    first = f"Apply it first: terraform -chdir={folder} apply"
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[0]
        raise NoTerraform(f"terraform has no outputs in {folder}: {said}", first)
    try:
        outputs = json.loads(done.stdout)
        audience = outputs.get("audience", {}).get("value", "")
        return str(outputs["api_url"]["value"]), str(audience or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoTerraform(f"terraform has no output api_url in {folder}.", first) from None


def chosen_login(
    url: str,
    audience: str,
    method: str | None,
    file: Path | None,
    token: str,
    project: str | None,
) -> Login:
    """Raises `InvalidInput`, `Unavailable` and `Unauthorized`."""
    url = checked_url(url, "URL")
    if not safe(url):
        raise InvalidInput("URL", url, "one with https://: others could read your token")
    if project is not None:
        with parsing():
            NewProject(name=project)
    if token:
        return Login(url, Method.TOKEN, token=token, project=project or "")
    way = Method.ADC if file else Method(method) if method else found_method()
    if way is None:
        raise Unauthorized("Nothing on this machine tells who you are.", _NO_METHOD)
    if way is Method.ADC:
        file = file.absolute() if file else named_file()
        if file is None:
            raise Unauthorized("This machine has no application default credentials.", _NO_METHOD)
        read_kind(file)
    other = "" if audience == url else audience
    return Login(url, way, file, project=project or "", audience=other)


def sign_in(login: Login) -> WhoAmI:
    """Keeps the login once the control plane knows who it is. Raises as the client does."""
    identity = None if login.method is Method.TOKEN else google_identity(login)
    credentials = identity or Fixed(login.token)
    with IdentityClient(login.url, credentials) as client:
        me = client.me()
    forget_login(home())
    keep_login(home(), login)
    if identity is not None:
        keep_token(home(), login, identity.token())
    return WhoAmI(
        url=login.url,
        source="xmcloud login",
        name=me.name,
        roles=me.roles,
        project=os.environ.get("XMCLOUD_PROJECT") or login.project or DEFAULT_PROJECT,
        proof=str(login),
        expires_at=_end(credentials),
    )


def who_am_i() -> WhoAmI:
    """Raises as the client does."""
    place = address()
    with IdentityClient(place.url, place.credentials) as client:
        me = client.me()
    return WhoAmI(
        url=place.url,
        source=place.source,
        name=me.name,
        roles=me.roles,
        project=current_project() or DEFAULT_PROJECT,
        proof=place.identity,
        expires_at=_end(place.credentials),
    )


def _end(credentials: Credentials) -> datetime | None:
    if not isinstance(credentials, GoogleIdentity):
        return None
    return datetime.fromtimestamp(credentials.token().expires_at, UTC)
