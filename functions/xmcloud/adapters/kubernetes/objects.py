"""The objects that make up a launch: a Job for each job, and a Service when they meet."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xmcloud.adapters.kubernetes.accelerators import Placement, placement
from xmcloud.core.arguments import render
from xmcloud.core.bindings import bind
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job, Peer
from xmcloud.core.platforms import Launch
from xmcloud.core.specs import Image, JobSpec, KubernetesOptions

LABEL = "xmcloud-label"
JOBS = "xmcloud-jobs"
"""An annotation: how many Jobs the launch has."""

PEERS = "XMCLOUD_PEERS"
PORT = 2222
_DAY = 24 * 3600
_KEPT_SECONDS, _KEPT_SECONDS_IN_GROUP = 7 * _DAY, 30 * _DAY
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_RESERVED = "xmcloud-"
_SPOT = "cloud.google.com/gke-spot"

# A Job outlives its pods; so it is to tell by itself why it failed.
_FAILURES = {
    "rules": [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]
}


@dataclass(frozen=True, slots=True)
class Need:
    """What a job takes: its image, where its pods go, and how many they are."""

    image: Image
    place: Placement
    pods: int


def needs(jobs: Sequence[Job]) -> list[Need]:
    """Raises `InvalidInput` for jobs that could never run together."""
    found = [_need(job.spec) for job in jobs]
    peers = _peers(jobs, "base", "namespace") if _meet(found) else {}
    for job in jobs:
        bind(job, peers)
    for label in options_of(jobs).labels:
        if label.startswith(_RESERVED):
            raise InvalidInput("platform.labels", label, f"a name without {_RESERVED} in front")
    return found


def _need(spec: JobSpec) -> Need:
    image = spec.executable
    if not isinstance(image, Image):
        raise InvalidInput("executable.kind", image.kind, "image, which Kubernetes runs")
    for name in ("ports", "volumes", "mount_gcs", "interactive"):
        if value := getattr(image.options, name):
            raise InvalidInput(f"executable.options.{name}", value, "left out on Kubernetes")
    if spec.platform is not None and not isinstance(spec.platform, KubernetesOptions):
        kind = spec.platform.kind
        raise InvalidInput("platform.kind", kind, "kubernetes where a job goes to Kubernetes")
    place = placement(spec.resources, spec.topology)
    if place.hosts > 1 and spec.replicas not in (1, place.hosts):
        raise InvalidInput("replicas", spec.replicas, f"1: its TPU has {place.hosts} machines")
    return Need(image, place, max(place.hosts, spec.replicas))


def _meet(found: Sequence[Need]) -> bool:
    return len(found) > 1 or found[0].pods > 1


def _peers(jobs: Sequence[Job], base: str, namespace: str) -> dict[str, Peer]:
    """The first pod of each job."""
    hosts = (f"{base}-{index}-0.{base}.{namespace}.svc" for index in range(len(jobs)))
    return {job.name: Peer(host=host, port=PORT) for job, host in zip(jobs, hosts, strict=True)}


def options_of(jobs: Sequence[Job]) -> KubernetesOptions:
    """Those of the first job."""
    options = jobs[0].spec.platform
    return options if isinstance(options, KubernetesOptions) else KubernetesOptions()


@dataclass(frozen=True, slots=True)
class Objects:
    """The Jobs; they are suspended when they are to meet, until the Service is there."""

    base: str
    label: str
    options: KubernetesOptions
    jobs: Sequence[dict[str, Any]]
    meet: bool

    def service(self, owners: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Gives each pod a name in DNS, before it is ready too; goes when all owners are gone."""
        references = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
            for owner in owners
        ]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": self.base,
                "labels": {**self.options.labels, LABEL: self.label},
                "ownerReferences": references,
            },
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {LABEL: self.label},
                "ports": [{"name": "peer", "port": PORT}],
            },
        }


def objects(launch: Launch, namespace: str) -> Objects:
    """Raises `InvalidInput`."""
    found = needs(launch.jobs)
    base = _base(launch.label)
    peers = _peers(launch.jobs, base, namespace) if _meet(found) else {}
    build = _Builder(launch, base, options_of(launch.jobs), peers)
    jobs = [
        build.job(index, _bound(job, launch, peers), need)
        for index, (job, need) in enumerate(zip(launch.jobs, found, strict=True))
    ]
    return Objects(base, launch.label, build.options, jobs, bool(peers))


def _bound(job: Job, launch: Launch, peers: Mapping[str, Peer]) -> Job:
    """With all of its variables, and the addresses that it names."""
    environment = {**job.spec.environment, **launch.environment.get(job.id, {})}
    if peers:
        addresses = {name: f"{peer.host}:{peer.port}" for name, peer in peers.items()}
        environment[PEERS] = json.dumps(addresses)
    return bind(job.evolve(spec=job.spec.evolve(environment=environment)), peers)


def _base(label: str) -> str:
    """The label where it leaves room for indices in a name in DNS, else a digest of it."""
    if _NAME.fullmatch(label):
        return label
    return f"xm-{hashlib.sha256(label.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class _Builder:
    launch: Launch
    base: str
    options: KubernetesOptions
    peers: Mapping[str, Peer]

    def job(self, index: int, job: Job, need: Need) -> dict[str, Any]:
        labels = {
            **self.options.labels,
            LABEL: self.launch.label,
            "xmcloud-experiment": job.experiment_id,
            "xmcloud-unit": str(job.unit),
            "xmcloud-job": job.id,
        }
        count = len(self.launch.jobs)
        spec: dict[str, Any] = {
            "backoffLimit": 0,
            "podFailurePolicy": _FAILURES,
            "ttlSecondsAfterFinished": _KEPT_SECONDS if count == 1 else _KEPT_SECONDS_IN_GROUP,
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
                },
                "spec": self._pod(job, need),
            },
        }
        if self.peers:
            spec |= {
                "suspend": True,
                "completionMode": "Indexed",
                "completions": need.pods,
                "parallelism": need.pods,
            }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": f"{self.base}-{index}",
                "labels": labels,
                "annotations": {JOBS: str(count), "xmcloud-name": job.full_name},
            },
            "spec": spec,
        }

    def _pod(self, job: Job, need: Need) -> dict[str, Any]:
        limits = job.spec.limits
        selector = {**need.place.selector, **self.options.node_selector}
        pod: dict[str, Any] = {
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": math.ceil(limits.grace_seconds),
            "containers": [_container(job, need)],
        }
        if limits.runtime_seconds is not None:
            pod["activeDeadlineSeconds"] = math.ceil(limits.runtime_seconds)
        if self.options.service_account:
            pod["serviceAccountName"] = self.options.service_account
        if self.options.spot:
            selector[_SPOT] = "true"
            pod["tolerations"] = [
                {"key": _SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
            ]
        if selector:
            pod["nodeSelector"] = selector
        if self.peers:
            pod["subdomain"] = self.base
        return pod


def _container(job: Job, need: Need) -> dict[str, Any]:
    variables = job.spec.environment.items()
    container: dict[str, Any] = {
        "name": "main",
        "image": need.image.image,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [{"name": name, "value": exact(value)} for name, value in variables],
        "resources": {"limits": {**_amounts(job.spec.resources), **need.place.limits}},
    }
    if need.image.command:
        container["command"] = [exact(token) for token in need.image.command]
    if arguments := render(job.spec.arguments):
        container["args"] = [exact(token) for token in arguments]
    return container


def exact(text: str) -> str:
    """What reaches the process as `text`: the cluster expands `$(NAME)`, and takes `$$` for `$`."""
    return text.replace("$", "$$")


def _amounts(resources: Mapping[str, float]) -> dict[str, str]:
    names = {"memory": "memory", "disk": "ephemeral-storage"}
    amounts = {
        theirs: str(math.ceil(resources[ours]))
        for ours, theirs in names.items()
        if ours in resources
    }
    if "cpu" in resources:
        amounts["cpu"] = f"{math.ceil(resources['cpu'] * 1000)}m"
    return amounts
