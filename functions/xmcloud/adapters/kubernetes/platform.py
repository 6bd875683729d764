"""The `Platform` port on a Kubernetes cluster."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from xmcloud.adapters.kubernetes import states
from xmcloud.adapters.kubernetes.cluster import Cluster, Json
from xmcloud.adapters.kubernetes.connections import Connection
from xmcloud.adapters.kubernetes.objects import needs, objects, options_of
from xmcloud.adapters.kubernetes.states import ENDED, Finding, View
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job
from xmcloud.core.platforms import (
    Launch,
    Platform,
    PlatformJob,
    PlatformRefused,
    PlatformState,
    QuotaExceeded,
)

_CANCELLED = View(PlatformState.CANCELLED, "cancelled")


class KubernetesPlatform(Platform):
    """Each job is a batch/v1 Job; the name of a launch is `namespace/label`.

    Jobs of a group, and replicas, reach one another by name in DNS: `XMCLOUD_PEERS` holds the
    addresses of the jobs, in JSON by their names, and `JOB_COMPLETION_INDEX` counts replicas. They
    start once all Jobs are there, but Kubernetes places pods one by one: a launch that holds some
    machines for half an hour while it lacks others is given up as BROKEN, so that two groups do
    not wait for each other for ever. Clusters with Kueue and JobSet can do better.

    Whoever looks at a launch (`find`, `get`) also does what the cluster does not do of its own: end
    the rest when one of its Jobs failed, and what cannot start: an image that cannot be pulled for
    ten minutes is a failure of the job. A state is terminal once nothing of it is left to run.

    A cancelled launch is CANCELLED once its pods have ended, or gone if none had started. Jobs stay
    for a week after their end, those of a group for 30 days; then the launch is gone.
    """

    def __init__(
        self,
        namespace: str,
        connection: Connection,
        *,
        more_namespaces: Sequence[str] = (),
        deadline: float = 30.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Jobs may name one of `more_namespaces` in their options."""
        self._namespaces = (namespace, *more_namespaces)
        self._cluster = Cluster(connection, deadline)
        self._now = now

    def check(self, jobs: Sequence[Job]) -> None:
        needs(jobs)
        self._namespace(jobs)

    async def submit(self, launch: Launch) -> PlatformJob:
        return await asyncio.to_thread(self._submit, launch)

    async def find(self, label: str) -> list[PlatformJob]:
        return await asyncio.to_thread(self._find, label)

    async def get(self, name: str) -> PlatformJob | None:
        return await asyncio.to_thread(self._look, name)

    async def cancel(self, name: str) -> None:
        await asyncio.to_thread(self._cancel, name)

    def event(self, body: str) -> str | None:
        """None: a cluster publishes nothing."""
        return None

    async def close(self) -> None:
        await asyncio.to_thread(self._cluster.close)

    def _namespace(self, jobs: Sequence[Job]) -> str:
        wanted = options_of(jobs).namespace
        if wanted and wanted not in self._namespaces:
            raise InvalidInput(
                "platform.namespace", wanted, f"one of {', '.join(self._namespaces)}"
            )
        return wanted or self._namespaces[0]

    def _submit(self, launch: Launch) -> PlatformJob:
        from xmcloud.adapters.kubernetes.failures import submitting

        namespace = self._namespace(launch.jobs)
        made: list[str] = []
        try:
            with submitting():
                self._create(launch, namespace, made)
        except (QuotaExceeded, PlatformRefused):
            self._discard(namespace, made)
            raise
        return PlatformJob(f"{namespace}/{launch.label}", PlatformState.PENDING)

    def _create(self, launch: Launch, namespace: str, made: list[str]) -> None:
        """Names what it makes in `made`."""
        wanted = objects(launch, namespace)
        there: list[Json] = []
        for manifest in wanted.jobs:
            job, new = self._cluster.create_job(namespace, manifest)
            there.append(job)
            if new:
                made.append(job["metadata"]["name"])
        if wanted.meet:
            self._cluster.create_service(namespace, wanted.service(there))
            for job in there:
                self._resume(namespace, job["metadata"]["name"])

    def _resume(self, namespace: str, name: str) -> None:
        self._cluster.patch_job(namespace, name, {"spec": {"suspend": False}})

    def _discard(self, namespace: str, names: Sequence[str]) -> None:
        from xmcloud.adapters.kubernetes.failures import asking

        with asking():
            for name in names:
                self._cluster.delete_job(namespace, name)

    def _find(self, label: str) -> list[PlatformJob]:
        names = [f"{namespace}/{label}" for namespace in self._namespaces]
        return [job for name in names if (job := self._look(name)) is not None]

    def _look(self, name: str) -> PlatformJob | None:
        from xmcloud.adapters.kubernetes.failures import asking

        namespace, _, label = name.partition("/")
        with asking():
            jobs = self._jobs(namespace, label)
            if not jobs:
                return None
            pods = self._cluster.pods(namespace, label)
            found = states.finding(jobs, pods, self._now())
            self._act(namespace, jobs, found)
            message = found.view.message or self._why(namespace, jobs, pods, found.view)
        return PlatformJob(name, found.view.state, message, exit_code=found.view.exit_code)

    def _act(self, namespace: str, jobs: Sequence[Json], found: Finding) -> None:
        for job in found.resume:
            self._resume(namespace, job)
        if found.end is not None:
            self._end(namespace, jobs, found.end)

    def _why(self, namespace: str, jobs: Sequence[Json], pods: Sequence[Json], view: View) -> str:
        """What keeps the cluster from making the pods: a quota, a missing service account."""
        if view.state is not PlatformState.PENDING or pods:
            return ""
        return next(reversed(self._cluster.warnings(namespace, jobs[0]["metadata"]["name"])), "")

    def _cancel(self, name: str) -> None:
        from xmcloud.adapters.kubernetes.failures import asking

        namespace, _, label = name.partition("/")
        with asking():
            self._end(namespace, self._jobs(namespace, label), _CANCELLED)

    def _jobs(self, namespace: str, label: str) -> Sequence[Json]:
        return self._cluster.jobs(namespace, label) if namespace and label else ()

    def _end(self, namespace: str, jobs: Sequence[Json], why: View) -> None:
        """By a deadline that has passed, so that the Job stays to tell; unless it never started."""
        note = json.dumps({"state": why.state, "message": why.message})
        for job in jobs:
            name = job["metadata"]["name"]
            if job["spec"].get("suspend"):
                self._cluster.delete_job(namespace, name)
            elif not states.over(job) and ENDED not in job["metadata"].get("annotations", {}):
                self._cluster.patch_job(
                    namespace,
                    name,
                    {
                        "metadata": {"annotations": {ENDED: note}},
                        "spec": {"activeDeadlineSeconds": 1},
                    },
                )
