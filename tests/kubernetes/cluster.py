"""A cluster in memory behind real HTTP; the test says what its nodes do."""

import asyncio
import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp.web
import attrs
from kmock import KubernetesEmulator, KubernetesError, Payload, Request, ResourceInfo

Json = dict[str, Any]
JOBS, PODS, SERVICES, EVENTS = "batch/v1/jobs", "v1/pods", "v1/services", "v1/events"


@attrs.define(kw_only=True)
class Emulator(KubernetesEmulator):
    """With what an API server adds to objects, label selectors, and refusals as they are told."""

    refusals: dict[tuple[str, str], tuple[int, str]] = attrs.field(factory=dict)
    refusals_once: dict[tuple[str, str], tuple[int, str]] = attrs.field(factory=dict)
    seen: list[tuple[str, str]] = attrs.field(factory=list)
    tokens: set[str] = attrs.field(factory=set)
    lost_answers: set[tuple[str, str]] = attrs.field(factory=set)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def _handle(self, request: Request) -> aiohttp.web.StreamResponse:
        if request.resource is not None:
            call = (str(request.method.value), str(request.resource.plural))
            self.seen.append(call)
            self.tokens.add(request.headers.get("Authorization", ""))
            refusal = self.refusals_once.pop(call, None) or self.refusals.get(call)
            if refusal is not None:
                raise KubernetesError(status=refusal[0], message=refusal[1])
            if call[0] == "POST":
                _add_defaults(request.data, str(request.namespace))
        response: aiohttp.web.StreamResponse = await super()._handle(request)
        self.changed.set()
        if request.resource is not None and call in self.lost_answers:
            self.lost_answers.remove(call)
            raise KubernetesError(status=503, message="shutting down")
        return response

    async def _serve_list(self, request: Request) -> Payload:
        answer: Any = await super()._serve_list(request)
        wanted = request.params.get("labelSelector")
        answer["items"] = [item for item in answer["items"] if _matches(item, wanted)]
        filtered: Payload = answer
        return filtered


def _add_defaults(data: Json, namespace: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    data["metadata"] |= {
        "uid": secrets.token_hex(8),
        "namespace": namespace,
        "creationTimestamp": now.replace("+00:00", "Z"),
    }


def _matches(item: Mapping[str, Any], selector: str | None) -> bool:
    labels = item["metadata"].get("labels", {})
    pairs = [pair.split("=") for pair in selector.split(",")] if selector else []
    return all(labels.get(name) == value for name, value in pairs)


class Nodes:
    """Plays the controllers and the nodes: nothing happens but what a test asks for."""

    def __init__(self, emulator: Emulator, url: str, namespace: str = "team") -> None:
        self.emulator, self.url, self.namespace = emulator, url, namespace
        for kind in (JOBS, PODS, SERVICES, EVENTS):
            emulator.resources[kind] = ResourceInfo()

    def all(self, kind: str, namespace: str | None = None) -> dict[str, Json]:
        """The objects that are there, by name."""
        place = namespace or self.namespace
        plural = kind.rpartition("/")[2]
        return {
            key[2]: dict(found.raw)
            for key, found in self.emulator.objects.items()
            if key[0].plural == plural and key[1] == place and not found.deleted
        }

    def schedule(self, job: str, *, at: str = "2030-01-01T00:00:00Z", index: int = 0) -> str:
        """Makes a pod of the Job and gives it a machine."""
        return self._pod(
            job, index, {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        )

    def find_no_room(self, job: str, message: str, index: int = 0) -> str:
        """Makes a pod of the Job that gets no machine."""
        return self._pod(
            job,
            index,
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            },
        )

    def run(self, job: str, index: int = 0) -> str:
        pod = self.schedule(job, index=index)
        self.pod_status(pod, phase="Running", containerStatuses=[_container(running={})])
        return pod

    def wait(self, pod: str, reason: str, message: str) -> None:
        """The container of the pod does not start."""
        waiting = {"reason": reason, "message": message}
        self.pod_status(pod, containerStatuses=[_container(waiting=waiting)])

    def exit(self, pod: str, code: int, **more: Any) -> None:
        """The container of the pod ends; so does the Job."""
        ended = {"exitCode": code, "finishedAt": "2030-01-01T01:00:00Z", **more}
        phase = "Failed" if code else "Succeeded"
        self.pod_status(pod, phase=phase, containerStatuses=[_container(terminated=ended)])
        job = pod.rpartition("-")[0].rpartition("-")[0]
        if code:
            message = (
                f"Container main for pod {self.namespace}/{pod} failed with exit code {code}"
                " matching FailJob rule at index 1"
            )
            self.fail(job, "PodFailurePolicy", message)
        else:
            self.job_status(job, active=0, succeeded=1, conditions=[_true("Complete")])

    def disrupt(self, pod: str, reason: str, *, gone: bool = True) -> None:
        """The machine is taken from the pod."""
        disrupted = {**_true("DisruptionTarget"), "reason": reason, "message": "node is going"}
        self.pod_status(pod, phase="Failed", conditions=[disrupted])
        job = pod.rpartition("-")[0].rpartition("-")[0]
        message = (
            f"Pod {self.namespace}/{pod} has condition DisruptionTarget"
            " matching FailJob rule at index 0"
        )
        self.fail(job, "PodFailurePolicy", message)
        if gone:
            self.emulator.objects[PODS, self.namespace, pod].delete()

    def fail(self, job: str, reason: str, message: str, at: str = "2030-01-01T01:00:01Z") -> None:
        condition = {**_true("Failed"), "reason": reason, "message": message}
        condition["lastTransitionTime"] = at
        self.job_status(job, active=0, failed=1, conditions=[condition])

    def pass_deadlines(self) -> list[str]:
        """Ends the Jobs whose deadline has passed, and tells which these were."""
        ended = []
        for name, job in self.all(JOBS).items():
            spec, over = job["spec"], job.get("status", {}).get("conditions")
            if "activeDeadlineSeconds" in spec and not spec.get("suspend") and not over:
                self.fail(name, "DeadlineExceeded", "Job was active longer than specified")
                ended.append(name)
        return ended

    def job_status(self, name: str, **status: Any) -> None:
        self.emulator.objects[JOBS, self.namespace, name].patch({"status": status})

    def pod_status(self, name: str, **status: Any) -> None:
        self.emulator.objects[PODS, self.namespace, name].patch({"status": status})

    def warn(self, job: str, message: str) -> None:
        self.emulator.objects[EVENTS, self.namespace, f"{job}.1"] = {
            "metadata": {"name": f"{job}.1", "namespace": self.namespace},
            "message": message,
        }

    def _pod(self, job: str, index: int, condition: Json) -> str:
        template = self.all(JOBS)[job]["spec"]["template"]
        name = f"{job}-{index}-abcde"
        labels = {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": job}
        self.emulator.objects[PODS, self.namespace, name] = {
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "spec": template["spec"],
            "status": {"phase": "Pending", "conditions": [condition]},
        }
        made = sum(1 for pod in self.all(PODS) if pod.startswith(f"{job}-"))
        self.job_status(job, active=made)
        return name


def _container(**state: Json) -> Json:
    return {"name": "main", "state": state}


def _true(kind: str) -> Json:
    return {"type": kind, "status": "True"}


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """What a process receives of a container's argument or variable, as a node makes it."""

    def one(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else variables.get(name, found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def kubeconfig(url: str) -> str:
    """The text of one whose context in use is `dead`, besides the one named `live`."""
    clusters = {"live": url, "dead": "http://127.0.0.1:9"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": n, "cluster": {"server": u}} for n, u in clusters.items()],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": "me"}} for name in clusters
            ],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "current-context": "dead",
        }
    )
