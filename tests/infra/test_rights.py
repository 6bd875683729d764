"""Every account has the rights that its code uses, and no others; the document says which."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.devtools.cloudbuild_v1.services.cloud_build import CloudBuildAsyncClient
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.secretmanager_v1 import SecretManagerServiceAsyncClient
from google.cloud.storage import Blob, Bucket, Client
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient

from tests.infra.conftest import ROOT, Applied
from tests.infra.reach import PORTS, reached
from tests.infra.rights import documented, held, needed, rendered
from xmcloud.adapters.gcp.secrets import PREFIX

ADAPTERS = ROOT / "functions" / "xmcloud" / "adapters" / "gcp"
SPOKEN = {
    "store": ("firestore.py", (FirestoreAsyncClient,)),
    "queue": ("pubsub.py", (PublisherAsyncClient, SubscriberAsyncClient)),
    "blobs": ("storage.py", (Blob, Bucket, Client)),
    "builder": ("cloud_build.py", (CloudBuildAsyncClient,)),
    "platform": ("vertex.py", (JobServiceAsyncClient,)),
    "secrets": ("secrets.py", (SecretManagerServiceAsyncClient,)),
}
NO_CALL = {
    ("builder", "event"),
    ("platform", "check"),
    ("platform", "event"),
}
"""Methods of ports that ask nobody."""
HERE_ONLY = {"blob", "bucket", "client", "close", "create_bucket", "path", "write"}
"""Methods of clients that send nothing, the emulator's bucket, and `write`, a word for costs."""
ACT_AS = "iam.serviceAccounts.actAs"
RUNS_AS = {"builder": "xmcloud-builds", "platform": "xmcloud-vertex"}
"""Whom what is submitted runs as."""
ENTRY_POINTS = ("api", "sweep", "dispatch", "build_event", "platform_event")


def test_the_document_says_who_may_do_what(applied: Applied) -> None:
    assert documented() == held(applied), "\n".join(rendered(applied))


def test_every_method_of_the_ports_is_in_the_document() -> None:
    methods = {(port, method) for port, methods in PORTS.items() for method in methods}
    assert needed().keys() == methods - NO_CALL


@pytest.mark.parametrize("port", SPOKEN)
def test_every_call_of_an_adapter_is_in_the_document(port: str) -> None:
    file, clients = SPOKEN[port]
    methods = {
        name
        for client in clients
        for name in dir(client)
        if name[0] != "_" and callable(getattr(client, name))
    }
    called = {name for name in _named(ADAPTERS / file) if name in methods} - HERE_ONLY
    known = [calls for (of, _), (calls, _) in needed().items() if of == port]
    assert called == {call for calls in known for call in calls if "." not in call}


def _named(path: Path) -> Iterator[str]:
    """Methods of something else than self, and what strings name: `self._call("commit", ..)`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id="self")):
                pass
            case ast.Attribute(attr=name, value=ast.Name() | ast.Await() | ast.Call()):
                yield name
            case ast.Constant(str(name)):
                yield name


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_account_may_do_what_its_code_reaches_and_nothing_else(
    applied: Applied, entry_point: str
) -> None:
    table = needed()
    methods = reached(entry_point) - NO_CALL
    wanted = {permission for method in methods for permission in table[method][1]}
    rights = held(applied)[f"xmcloud-{entry_point.replace('_', '-')}"]
    allowed = {(_place(each), each) for each in wanted - {ACT_AS}}
    allowed.add(("secret xmcloud-token", "roles/secretmanager.secretAccessor"))
    acting = {port for port, method in methods if ACT_AS in table[port, method][1]}
    allowed |= {(f"account {RUNS_AS[port]}", "roles/iam.serviceAccountUser") for port in acting}
    assert rights == allowed


def _place(permission: str) -> str:
    """A secret is made in the project, and from then on known by its name."""
    if permission.startswith("storage."):
        return "bucket my-project-xmcloud"
    secret = (
        permission.startswith("secretmanager.") and permission != "secretmanager.secrets.create"
    )
    return f"secrets {PREFIX}*" if secret else "project"
