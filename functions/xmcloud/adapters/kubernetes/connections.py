"""How to reach a cluster."""

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xmcloud.core.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from google.cloud.container_v1 import ClusterManagerClient
    from kubernetes.client import Configuration

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Connection(Protocol):
    """Where the API server is, and who calls it."""

    def configuration(self) -> "Configuration":
        """Raises `InvalidInput` when what it names is not there."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """As `kubectl` connects; '' is the context that the file has chosen."""

    path: Path
    context: str = ""

    def configuration(self) -> "Configuration":
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_kube_config

        made = Configuration()
        load: Any = load_kube_config
        try:
            load(str(self.path), self.context or None, made, persist_config=False)
        except ConfigException as error:
            where = f"{self.path} {self.context}".strip()
            raise InvalidInput("kubeconfig", where, f"one that names a cluster: {error}") from error
        return made


@dataclass(frozen=True, slots=True)
class InCluster:
    """From a pod of the cluster, as its service account; the token is read anew as it changes."""

    token: Path = _ACCOUNT / "token"
    certificate: Path = _ACCOUNT / "ca.crt"
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def configuration(self) -> "Configuration":
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException
        from kubernetes.config.incluster_config import InClusterConfigLoader

        made = Configuration()
        token, certificate = str(self.token), str(self.certificate)
        loader: Any = InClusterConfigLoader
        try:
            loader(token, certificate, environ=self.environment).load_and_set(made)
        except ConfigException as error:
            raise InvalidInput("token", token, f"that of a pod in a cluster: {error}") from error
        return made


@dataclass(frozen=True, slots=True)
class GkeCluster:
    """A cluster of Google's, `projects/../locations/../clusters/..`, as the default account.

    `endpoint` is the host:port of a stand-in for the GKE API.
    """

    name: str
    endpoint: str = ""

    def configuration(self) -> "Configuration":
        from kubernetes.client import Configuration

        renew = _renewal()
        host, certificate = self._place()
        made: Any = Configuration(host=f"https://{host}", ca_cert_data=certificate)
        renew(made)
        made.refresh_api_key_hook = renew
        configuration: Configuration = made
        return configuration

    def _place(self) -> tuple[str, str]:
        """The host of its API server, and the certificate that vouches for that."""
        from google.api_core import exceptions

        from xmcloud.adapters.gcp.failures import translated

        with translated("GKE"), gke_client(self.endpoint) as client:
            try:
                found = client.get_cluster(name=self.name, timeout=30.0)
            except (exceptions.NotFound, exceptions.Forbidden, exceptions.BadRequest) as error:
                expected = f"a cluster that the control plane may see: {error.message}"
                raise InvalidInput("cluster", self.name, expected) from error
        return found.endpoint, base64.b64decode(found.master_auth.cluster_ca_certificate).decode()


def _renewal() -> "Callable[[Configuration], None]":
    """Puts a token of the default account in place, a new one when the last is too old."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except GoogleAuthError as error:
        raise InvalidInput("credentials", "none", f"those of an account: {error}") from error

    def renew(configuration: "Configuration") -> None:
        try:
            if not credentials.valid:
                credentials.refresh(Request())
        except GoogleAuthError as error:
            raise Unavailable(f"Google gives no token: {error}.", "Try again later.") from error
        configuration.api_key["BearerToken"] = f"Bearer {credentials.token}"

    return renew


def gke_client(endpoint: str) -> "ClusterManagerClient":
    """The GKE API; at `endpoint`, a host:port, without TLS if it is given."""
    from google.cloud.container_v1 import ClusterManagerClient

    if not endpoint:
        return ClusterManagerClient()
    import grpc
    from google.cloud.container_v1.services.cluster_manager.transports import (
        ClusterManagerGrpcTransport,
    )

    channel = grpc.insecure_channel(endpoint)
    return ClusterManagerClient(transport=ClusterManagerGrpcTransport(channel=channel))
