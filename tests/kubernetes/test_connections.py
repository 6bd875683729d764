"""Ways to a cluster."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.cloud import container_v1 as gke
from google.oauth2.credentials import Credentials

from tests.kubernetes.cluster import JOBS, Nodes, kubeconfig
from tests.kubernetes.gke import serving
from tests.kubernetes.launches import job, launch
from xmcloud.adapters.kubernetes.connections import Connection, GkeCluster, InCluster, Kubeconfig
from xmcloud.adapters.kubernetes.platform import KubernetesPlatform
from xmcloud.core.errors import InvalidInput, Unavailable

pytestmark = pytest.mark.anyio


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "ca.crt", folder / "key.pem"
    pem = serialization.Encoding.PEM
    certificate.write_bytes(made.public_bytes(pem))
    secret.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, secret


@pytest.fixture
async def in_cluster(nodes: Nodes, tmp_path: Path) -> AsyncIterator[InCluster]:
    """What a pod of the cluster has: TLS ends before the emulator."""
    certificate, secret = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, secret)
    port = int(nodes.url.rpartition(":")[2])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back_writer), pump(back_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    host, port_of_tls = server.sockets[0].getsockname()
    token = tmp_path / "token"
    token.write_text("of the pod")
    yield InCluster(
        token,
        certificate,
        {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port_of_tls)},
    )
    server.close()
    await server.wait_closed()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def submit(connection: Connection) -> None:
    platform = KubernetesPlatform("team", connection, deadline=5.0)
    try:
        await platform.submit(launch(job()))
    finally:
        await platform.close()


async def test_the_context_that_is_named_is_used(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig(nodes.url))
    await submit(Kubeconfig(file, "live"))
    assert len(nodes.all(JOBS)) == 1
    assert nodes.emulator.tokens == {"Bearer secret"}


async def test_the_context_in_use_is_used_else(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig(nodes.url))
    with pytest.raises(Unavailable, match="does not answer"):
        await submit(Kubeconfig(file))
    assert nodes.all(JOBS) == {}


async def test_a_pod_reaches_its_own_cluster(nodes: Nodes, in_cluster: InCluster) -> None:
    await submit(in_cluster)
    assert len(nodes.all(JOBS)) == 1
    assert nodes.emulator.tokens == {"bearer of the pod"}


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        (Kubeconfig(Path("nowhere")), "nowhere"),
        (InCluster(Path("no-token"), Path("no-ca"), {}), "no-token"),
    ],
)
async def test_what_is_missing_is_named(connection: Connection, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        await submit(connection)


async def test_a_context_that_is_not_there_is_named(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig(nodes.url))
    with pytest.raises(InvalidInput, match="other"):
        await submit(Kubeconfig(file, "other"))


async def test_a_cluster_on_google_cloud_is_looked_up(
    nodes: Nodes, in_cluster: InCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "projects/p/locations/europe-west4-a/clusters/lab"
    where = in_cluster.environment
    certificate = base64.b64encode(in_cluster.certificate.read_bytes()).decode()
    monkeypatch.setattr("google.auth.default", lambda scopes: (Credentials("of mine"), "p"))
    with serving() as stand_in:
        stand_in.clusters[name] = gke.Cluster(
            endpoint=f"{where['KUBERNETES_SERVICE_HOST']}:{where['KUBERNETES_SERVICE_PORT']}",
            master_auth={"cluster_ca_certificate": certificate},
        )
        await submit(GkeCluster(name, stand_in.address))
        with pytest.raises(InvalidInput, match="Not found"):
            await submit(GkeCluster(f"{name}-2", stand_in.address))
    assert len(nodes.all(JOBS)) == 1
    assert nodes.emulator.tokens == {"Bearer of mine"}
