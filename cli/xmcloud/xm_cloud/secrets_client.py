"""The calls about the secrets of a project, of which none answers a value."""

import json
from urllib.parse import quote

from xmcloud.core.secrets import SecretList, SecretStatus
from xmcloud.xm_cloud.client import Client


class SecretsClient(Client):
    """Raises as `Client` does."""

    def secrets(self, project: str) -> SecretList:
        return self._get(SecretList, _path(project))

    def set_secret(self, project: str, name: str, value: str) -> SecretStatus:
        """In place of an earlier value. Raises what the control plane refuses."""
        body = json.dumps({"value": value}).encode()
        return self._answer(SecretStatus, "PUT", f"{_path(project)}/{_part(name)}", body=body)

    def remove_secret(self, project: str, name: str) -> SecretStatus:
        return self._answer(SecretStatus, "DELETE", f"{_path(project)}/{_part(name)}")


def _path(project: str) -> str:
    return f"/v1/projects/{_part(project)}/secrets"


def _part(name: str) -> str:
    return quote(name, safe="") or "%20"
