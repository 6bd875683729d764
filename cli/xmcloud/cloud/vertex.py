"""TensorBoard instances of Vertex AI."""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xmcloud.core.errors import XmcloudError
from xmcloud.xm_cloud.places import rehearsed
from xmcloud.xm_cloud.shared import shared_client

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import TensorboardServiceAsyncClient

__all__ = ["Client", "NoTensorboard", "get_default_client", "set_default_client"]

_PROJECT = "GOOGLE_CLOUD_PROJECT"


class NoTensorboard(XmcloudError):
    """Vertex AI cannot be asked for a TensorBoard, or gives none."""

    slug, title, status = "no-tensorboard", "There is no TensorBoard", 422

    def __init__(self, why: str, remedy: str) -> None:
        otherwise = "Or use one by its name: projects/../locations/../tensorboards/.."
        super().__init__(f"No TensorBoard was found or made: {why}.", f"{remedy} {otherwise}")


class Client:
    """Vertex AI in one region of a project: by default GOOGLE_CLOUD_PROJECT, or the credentials'.

    `endpoint` is the host:port of what stands in for it and wants no credentials.
    """

    def __init__(
        self, project: str | None = None, location: str = "us-central1", *, endpoint: str = ""
    ) -> None:
        self.project = project or os.environ.get(_PROJECT, "")
        self.location = location
        self._endpoint = endpoint

    async def get_or_create_tensorboard(self, name: str) -> str:
        """The resource name of an instance with that display name.

        In a dry run, and where the cloud is rehearsed, nobody is asked and the name is made up.
        Raises NoTensorboard.
        """
        if shared_client().dry or rehearsed():
            return f"{self._parent('xmcloud-local')}/tensorboards/{zlib.crc32(name.encode())}"
        with _told():
            service = self._service()
            asked = {"parent": self._parent(), "filter": f"display_name={json.dumps(name)}"}
            async for board in await service.list_tensorboards(asked):
                return str(board.name)
        return await self.create_tensorboard(name)

    async def create_tensorboard(self, name: str) -> str:
        """The resource name of a new instance. Raises NoTensorboard."""
        with _told():
            service = self._service()
            wanted = {"parent": self._parent(), "tensorboard": {"display_name": name}}
            operation = await service.create_tensorboard(wanted)
            made = await operation.result()
            return str(made.name)

    def _parent(self, default: str = "") -> str:
        project = self.project or default or _project_of_credentials()
        return f"projects/{project}/locations/{self.location}"

    def _service(self) -> "TensorboardServiceAsyncClient":
        """Bound to the event loop that runs."""
        from google.api_core.client_options import ClientOptions
        from google.cloud.aiplatform_v1 import TensorboardServiceAsyncClient
        from google.cloud.aiplatform_v1.services.tensorboard_service.transports import grpc_asyncio

        if not self._endpoint:
            host = f"{self.location}-aiplatform.googleapis.com"
            return TensorboardServiceAsyncClient(client_options=ClientOptions(api_endpoint=host))
        from grpc.aio import insecure_channel

        channel = insecure_channel(self._endpoint)
        transport = grpc_asyncio.TensorboardServiceGrpcAsyncIOTransport(channel=channel)
        return TensorboardServiceAsyncClient(transport=transport)


def _project_of_credentials() -> str:
    import google.auth

    _, project = google.auth.default()
    if not project:
        raise NoTensorboard("the credentials name no project", f"Set {_PROJECT}.")
    return str(project)


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong at Google, as `NoTensorboard`."""
    try:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import aiplatform_v1  # noqa: F401 - is it there?
    except ModuleNotFoundError as error:
        remedy = "Install it: pip install 'xmcloud[gcp]'."
        raise NoTensorboard(f"the package {error.name} is not installed", remedy) from None
    try:
        yield
    except GoogleAuthError as error:
        remedy = "Log in: gcloud auth application-default login."
        raise NoTensorboard(str(error).rstrip("."), remedy) from error
    except GoogleAPICallError as error:
        raise NoTensorboard(f"Vertex AI says {error}", "Correct that and try again.") from error


_default: list[Client] = []


def get_default_client() -> Client:
    """The one of `set_default_client`, else one made now."""
    if not _default:
        set_default_client(Client())
    return _default[0]


def set_default_client(client: Client) -> None:
    _default[:] = [client]
