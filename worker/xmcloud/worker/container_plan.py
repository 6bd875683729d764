"""From the definition of a job to what a container engine is asked for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from xmcloud.core.arguments import command_line, render
from xmcloud.core.models import Job
from xmcloud.core.names import derived_id
from xmcloud.core.specs import Argument, Image
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container_output import log_config
from xmcloud.worker.identity import Places, bound, job_environment, peers_of, with_peers
from xmcloud.worker.setup import SetupFailed

HOST = "host"
GROUP_NETWORK = "xmcloud"
INSIDE = "/xmcloud"
"""What containers see of the folder of their attempt; the home of users without one."""

_PLACES = Places("/xmcloud/results.json", "/xmcloud/outputs", "/xmcloud/checkpoint")
_JOB, _ATTEMPT = "xmcloud.job", "xmcloud.attempt"
_CDI_KIND = "nvidia.com/gpu"
_PODMAN_WITH_GPUS = (5, 4)
"""Earlier ones leave devices out without a word."""

Options = dict[str, Any]
"""Arguments of `docker.models.containers.ContainerCollection.create`."""


@dataclass(frozen=True, slots=True)
class Site:
    """What of a machine decides how its containers run."""

    network: str
    """The one for a job that is alone; 'bridge' is the engine's own."""

    gcs: Path | None
    """A folder that has one for each bucket."""

    addresses: Mapping[str, str]
    """Of the hosts of peers that are named."""

    podman: tuple[int, ...] = ()
    """Its version; nothing for Docker."""

    user: str = ""
    """UID:GID that containers run as; '': what their images say."""

    home: str = ""
    """Of that user, if the image has none."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image says of itself."""

    digest: str = ""
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    directory: str = ""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """What is started, for the attempt that has that folder."""

    name: str
    job_id: str
    network: str
    options: Options = field(repr=False)
    folder: AttemptFolder
    image: ImageFacts
    notes: Sequence[str] = ()

    def given(self, variables: Mapping[str, str]) -> Self:
        """With more variables for the process."""
        environment = {**self.options["environment"], **variables}
        return replace(self, options={**self.options, "environment": environment})

    @property
    def argv(self) -> list[str]:
        """What runs in the container."""
        own = "entrypoint" in self.options
        entrypoint = self.options["entrypoint"] if own else self.image.entrypoint
        # An entrypoint that is given leaves the image's command out.
        return [*entrypoint, *self.options.get("command", () if own else self.image.command)]


def labels(job_id: str, fence: int) -> dict[str, str]:
    """What tells the containers of one attempt from all others."""
    return {_JOB: job_id, _ATTEMPT: str(fence)}


def job_of(container_labels: Mapping[str, str]) -> str:
    """The job that a container was started for; '' if it was not by a worker."""
    return container_labels.get(_JOB, "")


def container_name(full_name: str) -> str:
    """The full name, or what an engine and a resolver take for one."""
    allowed = re.sub(r"[^a-zA-Z0-9_.-]", "-", full_name)
    return allowed if allowed == full_name else f"{allowed}-{derived_id(full_name)[:6]}"


def container_plan(
    job: Job,
    image: Image,
    folder: AttemptFolder,
    site: Site,
    facts: ImageFacts,
    gpus: Sequence[str] = (),
) -> ContainerPlan:
    """`gpus` are the UUIDs that the job was allotted. Raises `SetupFailed`."""
    network = _network(job, site.network)
    job, hosts = _reaching_peers(job, network, site)
    job = bound(job)
    environment = {
        **({"HOME": site.home} if site.home else {}),
        **job.spec.environment,
        **job_environment(job, _PLACES),
        "NVIDIA_VISIBLE_DEVICES": ",".join(gpus) or "void",
    }
    mounts, notes = _mounts(image, folder, site)
    options = {
        "image": image.image,
        "name": container_name(job.full_name),
        "labels": labels(job.id, job.fence),
        **_command(image, job.spec.arguments, facts.entrypoint),
        "environment": environment,
        "use_config_proxy": False,
        "mounts": mounts,
        **_connections(job, image, network),
        "extra_hosts": hosts,
        **_limits(job),
        **_devices(gpus, site.podman),
        **({"user": site.user} if site.user else {}),
        "tty": image.options.interactive,
        "stdin_open": image.options.interactive,
        "log_config": log_config(podman=bool(site.podman)),
    }
    return ContainerPlan(options["name"], job.id, network, options, folder, facts, notes)


def _network(job: Job, default: str) -> str:
    """Jobs of a group find each other by name on one machine, and by address on several."""
    hosts = {peer.host for peer in peers_of(job).values()}
    if default == HOST or len(hosts) > 1:
        return HOST
    return GROUP_NETWORK if hosts and default == "bridge" else default


def _reaching_peers(job: Job, network: str, site: Site) -> tuple[Job, dict[str, str]]:
    """The job, and the addresses of those names that no network of the engine resolves."""
    peers = peers_of(job)
    if network != HOST:
        return with_peers(job, {n: p.evolve(host=_peer_name(job, n)) for n, p in peers.items()}), {}
    addresses = {n: site.addresses.get(p.host, p.host) for n, p in peers.items()}
    return job, {_peer_name(job, name): address for name, address in addresses.items()}


def _peer_name(job: Job, name: str) -> str:
    return container_name(f"{job.experiment_id}_{job.unit}_{name}")


def _command(image: Image, arguments: Sequence[Argument], entrypoint: Sequence[str]) -> Options:
    through_shell = any(argument.shell for argument in arguments)
    if image.command or through_shell:
        argv = command_line(image.command or entrypoint, arguments)
        return {"entrypoint": argv[:1], "command": argv[1:]}
    rendered = render(arguments)
    return {"command": rendered} if rendered else {}


def _mounts(image: Image, folder: AttemptFolder, site: Site) -> tuple[list[Options], list[str]]:
    folders = {str(folder.shared): INSIDE, str(folder.checkpoint): _PLACES.checkpoint}
    for source, target in image.options.volumes.items():
        if not Path(source).is_absolute():
            raise SetupFailed(
                f"The volume {source!r} is not an absolute path."
                " Name it from the root on, as the worker's machine knows it."
            )
        folders[source] = target
    notes = []
    if image.options.mount_gcs and site.gcs is not None:
        folders[str(site.gcs)] = "/gcs"
    elif image.options.mount_gcs:
        notes.append("Cloud Storage is not seen below /gcs: this worker has no gcs_root")
    return [{"Type": "bind", "Source": s, "Target": t} for s, t in folders.items()], notes


def _connections(job: Job, image: Image, network: str) -> Options:
    ports = dict(image.options.ports)
    if network == HOST:
        moved = {inside: outside for inside, outside in ports.items() if inside != outside}
        if moved:
            raise SetupFailed(
                f"Port {min(moved)} of the container cannot be another port of this machine, whose"
                " network it shares. Let it listen on the port that is to be seen, or set the"
                " worker's container_network to a bridge network."
            )
        return {"network_mode": HOST}
    if peers := peers_of(job):
        own = peers[job.name].port
        ports.setdefault(own, own)
    chosen = {} if network == "bridge" else {"network": network}
    return {"ports": {f"{inside}/tcp": outside for inside, outside in ports.items()}, **chosen}


def _limits(job: Job) -> Options:
    """Memory without swap, so that a job that needs more is told so."""
    resources = job.spec.resources
    options: Options = {}
    if cpu := resources.get("cpu"):
        options["nano_cpus"] = int(cpu * 1_000_000_000)
    if memory := resources.get("memory"):
        options["mem_limit"] = options["memswap_limit"] = int(memory)
    return options


def _devices(gpus: Sequence[str], podman: tuple[int, ...]) -> Options:
    """Exactly those. Raises `SetupFailed` where the engine would start without them."""
    if not gpus:
        return {}
    if not podman:
        request: Options = {"device_ids": list(gpus), "capabilities": [["gpu"]]}
    elif podman >= _PODMAN_WITH_GPUS:
        request = {"driver": "cdi", "device_ids": [f"{_CDI_KIND}={uuid}" for uuid in gpus]}
    else:
        raise SetupFailed(
            f"Podman {'.'.join(map(str, podman))} gives containers no GPUs when it is asked as"
            f" Docker is. Update it to {'.'.join(map(str, _PODMAN_WITH_GPUS))} or later, or tell"
            " the worker of a Docker engine by its setting container_host."
        )
    return {"device_requests": [request]}
