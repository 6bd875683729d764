"""ID tokens of the machine's own service account, and of whom gcloud is signed in as."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from xmcloud.core.errors import Unauthorized, Unavailable
from xmcloud.xm_cloud.credentials.google_auth import told, transport
from xmcloud.xm_cloud.credentials.id_token import IdToken

_PRODUCT = Path("/sys/class/dmi/id/product_name")
_SERVICE_ACCOUNT = ".gserviceaccount.com"
_GCLOUD_SECONDS = 60.0


def on_google(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a metadata server; without asking it, which takes long elsewhere."""
    if environ.get("GCE_METADATA_HOST") or environ.get("K_SERVICE"):
        return True
    try:
        return _PRODUCT.read_text().startswith("Google")
    except OSError:
        return False


def metadata_id_token(audience: str) -> str:
    """Of the service account that this machine runs as. Raises `Unauthorized` and `Unavailable`."""
    with told("this machine's service account", "See whether the machine has one."):
        from google.auth.compute_engine import IDTokenCredentials

        request = transport()
        credentials = IDTokenCredentials(request, audience, use_metadata_identity_endpoint=True)
        credentials.refresh(request)
        return str(credentials.token)


def has_gcloud() -> bool:
    return shutil.which("gcloud") is not None


def gcloud_id_token(audience: str) -> str:
    """Of a person for any audience, of a service account for that one.

    Raises `Unauthorized` and `Unavailable`.
    """
    text, problem = _gcloud()
    if not text or _is_for_another(text, audience):
        text, second = _gcloud(f"--audiences={audience}")
        problem = problem or second
    if not text:
        raise Unauthorized(f"gcloud gives no ID token: {problem}", "Sign in: gcloud auth login")
    return text


def _is_for_another(text: str, audience: str) -> bool:
    token = IdToken.parse(text)
    return token.email.endswith(_SERVICE_ACCOUNT) and token.audience != audience


def _gcloud(*flags: str) -> tuple[str, str]:
    """The token or '', and why there is none."""
    program = shutil.which("gcloud")
    if program is None:
        raise Unauthorized("There is no gcloud on the PATH.", "Install it, or use another method.")
    try:
        done = subprocess.run(
            [program, "auth", "print-identity-token", "--quiet", *flags],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_GCLOUD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"gcloud does not answer within {_GCLOUD_SECONDS:g} s.") from None
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout.strip(), ""
    said = done.stderr.strip().splitlines()
    return "", said[0][:200] if said else f"it ended with {done.returncode}"
