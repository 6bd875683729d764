"""Google's credential files: application default credentials, keys, federated identities."""

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from xmcloud.core.errors import Unauthorized, Unavailable
from xmcloud.xm_cloud.credentials.google_auth import told, transport

VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"

_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ACCESS, _ID = ":generateAccessToken", ":generateIdToken"
_AGAIN = "Make them again: gcloud auth application-default login"


class Kind(StrEnum):
    """The `type` of a file that an ID token can be had for."""

    PERSON = "authorized_user"
    SERVICE_ACCOUNT = "service_account"
    IMPERSONATED = "impersonated_service_account"
    FEDERATED = "external_account"


def named_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where this machine's application default credentials are."""
    if named := environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    folder = environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    usual = Path(folder).expanduser().absolute() / "application_default_credentials.json"
    return usual if usual.exists() else None


def read_kind(path: Path) -> Kind:
    """Raises `Unauthorized` for a file that no ID token can be had for."""
    return _read(path)[0]


def _read(path: Path) -> tuple[Kind, dict[str, Any]]:
    try:
        info = json.loads(path.read_bytes())
        kind = info["type"]
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        raise Unauthorized(f"Google's credentials {path} {why}.", _AGAIN) from None
    except (ValueError, TypeError, KeyError):
        raise Unauthorized(f"{path} holds no credentials of Google's.", _AGAIN) from None
    if kind not in list(Kind):
        raise Unauthorized(
            f"Of {path} no ID token can be had: it is {kind!r}.",
            f"Use one of: {', '.join(Kind)}.",
        )
    return Kind(kind), info


def id_token(path: Path, audience: str) -> str:
    """A new one; that of a person is for any audience. Raises `Unauthorized` and `Unavailable`."""
    kind, info = _read(path)
    remedy = _AGAIN if kind is Kind.PERSON else f"See whether {path} is still good."
    with told(str(path), remedy):
        match kind:
            case Kind.PERSON:
                return _of_person(info, path)
            case Kind.SERVICE_ACCOUNT:
                return _of_key(info, audience)
            case Kind.IMPERSONATED:
                return _acting_as(info, _access_token(info["source_credentials"]), audience, path)
            case Kind.FEDERATED:
                return _acting_as(info, _federated_token(info), audience, path)


def _of_person(info: Mapping[str, Any], path: Path) -> str:
    credentials = _person(info)
    credentials.refresh(transport())
    if not credentials.id_token:
        detail = f"{path} gives no ID token: it was made without the scope openid."
        raise Unauthorized(detail, f"{_AGAIN}; or: xmcloud login --method gcloud")
    return str(credentials.id_token)


def _person(info: Mapping[str, Any]) -> Any:
    from google.oauth2.credentials import Credentials

    return Credentials(
        None,
        refresh_token=info["refresh_token"],
        token_uri=info.get("token_uri", _TOKEN_URI),
        client_id=info["client_id"],
        client_secret=info["client_secret"],
        rapt_token=info.get("rapt_token"),
    )


def _of_key(info: Mapping[str, Any], audience: str) -> str:
    from google.oauth2.service_account import IDTokenCredentials

    request = transport()
    credentials = IDTokenCredentials.from_service_account_info(info, target_audience=audience)
    credentials.refresh(request)
    return str(credentials.token)


def _access_token(info: Mapping[str, Any]) -> str:
    request = transport()
    if info.get("type") == Kind.PERSON:
        credentials = _person(info)
    else:
        from google.oauth2.service_account import Credentials

        credentials = Credentials.from_service_account_info(info, scopes=_SCOPES)
    credentials.refresh(request)
    return str(credentials.token)


def _federated_token(info: Mapping[str, Any]) -> str:
    """Of the pool's own identity, which may act as the service account."""
    request = transport()
    own = {
        name: value
        for name, value in info.items()
        if not name.startswith("service_account_impersonation")
    }
    credentials = _source_of(info).from_info(own, scopes=_SCOPES)
    credentials.refresh(request)
    return str(credentials.token)


def _source_of(info: Mapping[str, Any]) -> Any:
    """What reads the token that is exchanged, as google-auth itself chooses."""
    from google.auth import aws, identity_pool, pluggable

    if info.get("subject_token_type") == "urn:ietf:params:aws:token-type:aws4_request":
        return aws.Credentials
    runs = "executable" in info.get("credential_source", {})
    return pluggable.Credentials if runs else identity_pool.Credentials


def _acting_as(info: Mapping[str, Any], access_token: str, audience: str, path: Path) -> str:
    """What the IAM Service Account Credentials API makes of it."""
    url = str(info.get("service_account_impersonation_url", ""))
    if not url.endswith(_ACCESS):
        raise Unauthorized(
            f"{path} names no service account to act as.",
            "Make it with: gcloud iam workload-identity-pools create-cred-config "
            "--service-account=EMAIL",
        )
    wanted = {"audience": audience, "includeEmail": True, "delegates": info.get("delegates", [])}
    answer = transport()(
        url=url.removesuffix(_ACCESS) + _ID,
        method="POST",
        headers={"Authorization": f"Bearer {access_token}", "Content-Type": "application/json"},
        body=json.dumps(wanted).encode(),
    )
    if answer.status >= 500 or answer.status == 429:
        raise Unavailable(f"Google does not answer for {path}: HTTP {answer.status}.")
    if answer.status != 200:
        account = url.removesuffix(_ACCESS).rpartition("/")[2]
        raise Unauthorized(
            f"{path} may not act as {account} (HTTP {answer.status}).",
            "Grant it roles/iam.workloadIdentityUser and roles/iam.serviceAccountTokenCreator.",
        )
    return str(json.loads(answer.data)["token"])
