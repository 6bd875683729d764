"""What the Jobs and pods of a launch say together."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from xmcloud.adapters.kubernetes.objects import JOBS
from xmcloud.core.platforms import PlatformState

Json = Mapping[str, Any]
ENDED = "xmcloud-ended"
"""An annotation of a Job that was ended from here: the state it ends in, and why."""

PULL_PATIENCE = timedelta(minutes=10)
"""For how long a container may fail to start on its machine; then the job is at fault."""

GATHER_PATIENCE = timedelta(minutes=30)
"""For how long some pods may hold machines while others of the launch have none."""

_HOPELESS = {"InvalidImageName"}
_STUCK = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "RunContainerError",
}
_MACHINE_TAKEN = {"NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"}
_EXIT_CODE = re.compile(r"failed with exit code (\d+)")


@dataclass(frozen=True, slots=True)
class View:
    """How a Job stands, or all of a launch; `at` is when it ended."""

    state: PlatformState
    message: str = ""
    exit_code: int | None = None
    at: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """How a launch stands, and what is to be done about it.

    `end` is why those of its Jobs that are not over are to be ended.
    """

    view: View
    resume: Sequence[str] = ()
    end: View | None = None


def finding(jobs: Sequence[Json], pods: Sequence[Json], now: datetime) -> Finding:
    """What there is to say of a launch that has at least one Job."""
    views = [_job(job, _own(job, pods)) for job in jobs]
    over = [view for view in views if view.state.terminal]
    failed = [view for view in over if view.state is not PlatformState.SUCCEEDED]
    cause = min(
        failed, key=lambda each: (each.state is PlatformState.CANCELLED, each.at), default=None
    )
    if cause is not None:
        if len(over) == len(views):
            return Finding(cause)
        rest = View(PlatformState.CANCELLED, "another job of the group ended")
        return Finding(_going(views, f"ends, since a job {cause.state}: {cause.message}"), end=rest)
    if (trouble := _trouble(jobs, pods, now)) is not None:
        still = any(not view.state.terminal for view in views)
        waits = all(job["spec"].get("suspend") for job in jobs)
        return Finding(
            _going(views, trouble.message) if still and not waits else trouble, end=trouble
        )
    if len(over) == len(views):
        return Finding(View(PlatformState.SUCCEEDED))
    asleep = [job["metadata"]["name"] for job in jobs if job["spec"].get("suspend")]
    return Finding(_going(views), resume=asleep)


def _going(views: Sequence[View], message: str = "") -> View:
    started = (PlatformState.RUNNING, PlatformState.SUCCEEDED)
    running = any(view.state in started for view in views)
    message = message or next((view.message for view in views if view.message), "")
    return View(PlatformState.RUNNING if running else PlatformState.PENDING, message)


def _job(job: Json, pods: Sequence[Json]) -> View:
    for condition in job.get("status", {}).get("conditions") or []:
        if condition["status"] == "True" and condition["type"] == "Complete":
            return View(PlatformState.SUCCEEDED)
        if condition["status"] == "True" and condition["type"] == "Failed":
            return _failed(job, condition, pods)
    if any(pod.get("status", {}).get("phase") in ("Running", "Succeeded") for pod in pods):
        return View(PlatformState.RUNNING)
    return View(PlatformState.PENDING, next(filter(None, map(_waits_for, pods)), ""))


def over(job: Json) -> bool:
    """Whether the Job has ended, well or not."""
    return _job(job, ()).state.terminal


def _failed(job: Json, condition: Json, pods: Sequence[Json]) -> View:
    at = condition.get("lastTransitionTime") or ""
    ended = job["metadata"].get("annotations", {}).get(ENDED)
    if ended and condition.get("reason") == "DeadlineExceeded":
        told = json.loads(ended)
        return View(PlatformState(told["state"]), told["message"], at=at)
    message = f"{condition.get('reason', '')}: {condition.get('message', '')}"
    if "DisruptionTarget" in message:
        return View(PlatformState.PREEMPTED, _disruption(pods) or message, at=at)
    pod = min(
        (pod for pod in pods if pod.get("status", {}).get("phase") == "Failed"),
        key=lambda each: _terminated(each).get("finishedAt") or "~",
        default=None,
    )
    view = _pod_failed(pod) if pod is not None else _unexplained(message)
    return View(view.state, view.message, view.exit_code, at)


def _unexplained(message: str) -> View:
    """Of a Job whose pod is gone."""
    code = _EXIT_CODE.search(message)
    if code:
        return View(PlatformState.FAILED, f"exit code {code[1]}", int(code[1]))
    return View(PlatformState.BROKEN, message)


def _pod_failed(pod: Json) -> View:
    status = pod["status"]
    reason, message = status.get("reason") or "", status.get("message") or ""
    if reason in _MACHINE_TAKEN or _disruption([pod]):
        return View(PlatformState.PREEMPTED, _disruption([pod]) or f"{reason}: {message}")
    if reason == "DeadlineExceeded":
        limit = pod["spec"].get("activeDeadlineSeconds")
        return View(PlatformState.FAILED, f"ran longer than its limit of {limit} seconds")
    ended = _terminated(pod)
    if reason == "Evicted":  # that no disruption comes with: it took more than its own limits
        return View(PlatformState.FAILED, f"{reason}: {message}", ended.get("exitCode"))
    if not ended or ended.get("reason") == "ContainerStatusUnknown":
        return View(PlatformState.BROKEN, f"{reason}: {message}" if reason else "its pod was lost")
    return View(PlatformState.FAILED, _exit(ended), ended["exitCode"])


def _exit(ended: Json) -> str:
    said = f"exit code {ended['exitCode']}"
    if ended.get("reason") not in (None, "", "Error"):
        said += f" ({ended['reason']})"
    lines = (ended.get("message") or "").strip().splitlines()
    return f"{said}: {lines[-1]}" if lines else said


def _disruption(pods: Sequence[Json]) -> str:
    for pod in pods:
        told = _condition(pod, "DisruptionTarget")
        if told.get("status") == "True":
            return f"{told.get('reason', '')}: {told.get('message', '')}"
    return ""


def _trouble(jobs: Sequence[Json], pods: Sequence[Json], now: datetime) -> View | None:
    """Why this will come to nothing, though nothing failed."""
    count = int(jobs[0]["metadata"]["annotations"][JOBS])
    if len(jobs) < count:
        message = f"{count - len(jobs)} of {count} jobs are not in the cluster"
        return View(PlatformState.BROKEN, message)
    for pod in pods:
        why = _waiting(pod).get("reason")
        if why in _HOPELESS or (why in _STUCK and _late(_scheduled(pod), PULL_PATIENCE, now)):
            return View(PlatformState.FAILED, _waits_for(pod))
    placed = [at for pod in pods if (at := _scheduled(pod))]
    if placed and _late(min(placed), GATHER_PATIENCE, now) and _lacking(jobs, pods):
        message = "The cluster has no room for all of them at once"
        return View(PlatformState.BROKEN, message)
    return None


def _lacking(jobs: Sequence[Json], pods: Sequence[Json]) -> bool:
    """Whether pods are without a machine, or were not even made."""
    if any(_condition(pod, "PodScheduled").get("status") == "False" for pod in pods):
        return True
    return any(_made(job) < job["spec"].get("parallelism", 1) for job in jobs if not over(job))


def _made(job: Json) -> int:
    status = job.get("status", {})
    return sum(status.get(kind) or 0 for kind in ("active", "succeeded", "failed"))


def _waits_for(pod: Json) -> str:
    waiting = _waiting(pod)
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return f"{waiting['reason']}: {waiting.get('message', '')}"
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', '')}: {scheduled.get('message', '')}"
    return ""


def _scheduled(pod: Json) -> str:
    """When it got its machine; '' while it has none."""
    condition = _condition(pod, "PodScheduled")
    at: str = condition.get("lastTransitionTime", "")
    return at if condition.get("status") == "True" else ""


def _late(since: str, patience: timedelta, now: datetime) -> bool:
    return bool(since) and now - datetime.fromisoformat(since) > patience


def _condition(pod: Json, kind: str) -> Json:
    conditions: list[Json] = pod.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def _container(pod: Json, state: str) -> Json:
    for container in pod.get("status", {}).get("containerStatuses") or []:
        found: Json | None = container.get("state", {}).get(state)
        if found:
            return found
    return {}


def _waiting(pod: Json) -> Json:
    return _container(pod, "waiting")


def _terminated(pod: Json) -> Json:
    return _container(pod, "terminated")


def _own(job: Json, pods: Sequence[Json]) -> list[Json]:
    name = job["metadata"]["name"]
    return [
        pod
        for pod in pods
        if pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == name
    ]
