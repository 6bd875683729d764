"""The stand-ins for cloud services among the processes of this machine, and their registry."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from xmcloud.core.errors import XmcloudError
from xmcloud.local.processes import (
    LOOPBACK,
    Processes,
    answers,
    free_port,
    free_ports,
    wait_until_ready,
)
from xmcloud.local.standins.addresses import StandInPorts

STAND_INS, REGISTRY = "stand-ins", "registry"
REHEARSAL = (STAND_INS, REGISTRY)
_READY_SECONDS = 60.0

Say = Callable[[str], None]


class MissingExtra(XmcloudError):
    """The stand-ins speak through Google's own libraries."""

    slug, title, status = "missing-extra", "A library is missing", 422


def start_rehearsal(
    processes: Processes, home: Path, variables: Mapping[str, str], registry: str, say: Say
) -> dict[str, str]:
    """Start the stand-ins; what the control plane has to know of them.

    Images go to `registry`, else to one that is started here if its program is there. Raises
    MissingExtra, and what starting a process raises.
    """
    _require_libraries()
    ports = StandInPorts(*free_ports(len(StandInPorts._fields)))
    registry = registry or _start_registry(processes, home, say)
    argv = [sys.executable, "-P", "-m", "xmcloud.local.standins.serve", f"--home={home}"]
    record = processes.start(
        STAND_INS, [*argv, f"--ports={','.join(map(str, ports))}"], dict(variables)
    )
    wait_until_ready(record, answers(ports.faults, "/faults/vertex"), _READY_SECONDS)
    found = {**ports.environment(), "XMCLOUD_FAULTS": f"http://{LOOPBACK}:{ports.faults}/faults"}
    if not registry:
        return found
    return {**found, "XMCLOUD_REGISTRY": f"{registry}/xmcloud", "XMCLOUD_BUILD_LOCATION": "global"}


def _require_libraries() -> None:
    from importlib.util import find_spec

    for package in ("google.cloud.aiplatform_v1", "google.cloud.devtools", "docker"):
        try:
            there = find_spec(package) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            raise MissingExtra(
                f"The stand-ins need the package {package}.", "pip install 'xmcloud[gcp,docker]'"
            )


def _start_registry(processes: Processes, home: Path, say: Say) -> str:
    program = shutil.which("docker-registry")
    if program is None:
        say(
            "No images are built in this rehearsal: docker-registry is not here. Install it, or "
            "run one (docker run -d -p 127.0.0.1:5000:5000 registry:2) and name it: "
            "xmcloud down, then xmcloud up --stand-ins --registry 127.0.0.1:5000"
        )
        return ""
    address = f"{LOOPBACK}:{free_port()}"
    settings = {
        "version": "0.1",
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(home / "images")}},
        "http": {"addr": address},
    }
    file = home / "registry.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    record = processes.start(REGISTRY, [program, "serve", str(file)], {})
    port = int(address.rpartition(":")[2])
    wait_until_ready(record, answers(port, "/v2/"), _READY_SECONDS)
    return address
