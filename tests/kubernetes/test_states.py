"""What is told of a launch, and what is done about it, as its pods fare."""

from datetime import timedelta

import pytest

from tests.kubernetes.cluster import JOBS, Nodes
from tests.kubernetes.launches import LABEL, job, launch, pair
from tests.support.clock import ManualClock
from xmcloud.adapters.kubernetes.platform import KubernetesPlatform
from xmcloud.adapters.kubernetes.states import GATHER_PATIENCE, PULL_PATIENCE
from xmcloud.core.errors import Unavailable
from xmcloud.core.platforms import PlatformJob, PlatformState
from xmcloud.core.specs import Limits

pytestmark = pytest.mark.anyio

NAME = f"team/{LABEL}"
FIRST, SECOND = f"{LABEL}-0", f"{LABEL}-1"
BARELY = timedelta(seconds=1)


async def look(platform: KubernetesPlatform) -> PlatformJob:
    found = await platform.get(NAME)
    assert found is not None
    assert [found] == await platform.find(LABEL)
    return found


async def test_a_job_waits_runs_and_succeeds(platform: KubernetesPlatform, nodes: Nodes) -> None:
    submitted = await platform.submit(launch(job()))
    assert await look(platform) == submitted
    pod = nodes.run(FIRST)
    assert (await look(platform)).state is PlatformState.RUNNING
    nodes.exit(pod, 0)
    assert (await look(platform)).state is PlatformState.SUCCEEDED


async def test_a_job_that_fails_tells_its_exit_code_and_last_words(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.exit(nodes.run(FIRST), 3, reason="Error", message="Traceback\nValueError: no data\n")

    found = await look(platform)

    assert (found.state, found.exit_code) == (PlatformState.FAILED, 3)
    assert found.message == "exit code 3: ValueError: no data"


async def test_a_job_that_ran_out_of_memory_says_so(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.exit(nodes.run(FIRST), 137, reason="OOMKilled")

    assert (await look(platform)).message == "exit code 137 (OOMKilled)"


async def test_the_exit_code_outlives_the_pod(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(launch(job()))
    pod = nodes.run(FIRST)
    nodes.exit(pod, 42)
    nodes.emulator.objects["v1/pods", "team", pod].delete()

    found = await look(platform)

    assert (found.state, found.exit_code) == (PlatformState.FAILED, 42)


async def test_a_job_that_ran_too_long_failed(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(launch(job(limits=Limits(runtime_seconds=90))))
    pod = nodes.run(FIRST)
    nodes.exit(pod, 143)
    nodes.pod_status(pod, reason="DeadlineExceeded")

    found = await look(platform)

    assert found.state is PlatformState.FAILED
    assert "longer than its limit of 90 seconds" in found.message


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(
    "reason", ["PreemptionByScheduler", "DeletionByTaintManager", "TerminationByKubelet"]
)
async def test_a_job_whose_machine_was_taken_was_preempted(
    platform: KubernetesPlatform, nodes: Nodes, reason: str, gone: bool
) -> None:
    await platform.submit(launch(job()))
    nodes.disrupt(nodes.run(FIRST), reason, gone=gone)

    found = await look(platform)

    assert found.state is PlatformState.PREEMPTED
    assert "DisruptionTarget" in found.message if gone else reason in found.message


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("Preempting", PlatformState.PREEMPTED),
        ("NodeLost", PlatformState.PREEMPTED),
        ("Evicted", PlatformState.FAILED),
        ("UnexpectedAdmissionError", PlatformState.BROKEN),
    ],
)
async def test_a_pod_that_a_machine_gave_up(
    platform: KubernetesPlatform, nodes: Nodes, reason: str, state: PlatformState
) -> None:
    await platform.submit(launch(job()))
    pod = nodes.schedule(FIRST)
    nodes.pod_status(pod, phase="Failed", reason=reason, message="why")
    nodes.fail(FIRST, "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    found = await look(platform)

    assert (found.state, found.message) == (state, f"{reason}: why")


async def test_a_job_whose_pod_vanished_is_broken(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.fail(FIRST, "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    found = await look(platform)

    assert found.state is PlatformState.BROKEN
    assert "backoff limit" in found.message


async def test_a_job_without_room_waits_and_tells_why(
    platform: KubernetesPlatform, nodes: Nodes, clock: ManualClock
) -> None:
    await platform.submit(launch(job()))
    nodes.find_no_room(FIRST, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu")
    clock.advance(GATHER_PATIENCE * 100)

    found = await look(platform)

    assert found.state is PlatformState.PENDING
    assert found.message.startswith("Unschedulable: 0/3 nodes")


async def test_a_job_whose_pods_cannot_be_made_tells_why(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.warn(FIRST, 'pods "x" is forbidden: exceeded quota: small')

    found = await look(platform)

    assert found.state is PlatformState.PENDING
    assert "exceeded quota" in found.message


async def test_an_image_that_cannot_be_pulled_fails_the_job_in_the_end(
    platform: KubernetesPlatform, nodes: Nodes, clock: ManualClock
) -> None:
    await platform.submit(launch(job()))
    nodes.wait(nodes.schedule(FIRST), "ImagePullBackOff", "manifest unknown")
    clock.advance(PULL_PATIENCE)
    assert (await look(platform)).message == "ImagePullBackOff: manifest unknown"
    assert nodes.pass_deadlines() == []

    clock.advance(BARELY)
    assert (await look(platform)).state is PlatformState.PENDING
    assert nodes.pass_deadlines() == [FIRST]

    found = await look(platform)
    assert found.state is PlatformState.FAILED
    assert found.message == "ImagePullBackOff: manifest unknown"


async def test_an_image_without_a_proper_name_fails_the_job_at_once(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.wait(nodes.schedule(FIRST), "InvalidImageName", "cannot parse")
    await look(platform)
    nodes.pass_deadlines()

    assert (await look(platform)).state is PlatformState.FAILED


async def test_a_group_runs_from_its_first_pod_to_its_last(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(pair())
    first = nodes.run(FIRST)
    second = nodes.schedule(SECOND)
    assert (await look(platform)).state is PlatformState.RUNNING
    nodes.exit(first, 0)
    assert (await look(platform)).state is PlatformState.RUNNING
    nodes.exit(second, 0)
    assert (await look(platform)).state is PlatformState.SUCCEEDED


async def test_when_one_job_of_a_group_fails_the_rest_is_ended_first(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(pair())
    nodes.run(FIRST)
    nodes.exit(nodes.run(SECOND), 5)

    going = await look(platform)
    assert going.state is PlatformState.RUNNING
    assert "exit code 5" in going.message
    assert nodes.pass_deadlines() == [FIRST]

    found = await look(platform)
    assert (found.state, found.exit_code) == (PlatformState.FAILED, 5)


async def test_what_ended_first_tells_how_the_group_ended(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(pair())
    nodes.exit(nodes.run(FIRST), 1)
    nodes.disrupt(nodes.run(SECOND), "PreemptionByScheduler")
    nodes.fail(FIRST, "PodFailurePolicy", "failed with exit code 1", at="2030-01-01T02:00:00Z")

    assert (await look(platform)).state is PlatformState.PREEMPTED


async def test_a_group_that_gets_only_some_machines_gives_them_back(
    platform: KubernetesPlatform, nodes: Nodes, clock: ManualClock
) -> None:
    await platform.submit(pair())
    nodes.run(FIRST)
    nodes.find_no_room(SECOND, "0/1 nodes are available")
    clock.advance(GATHER_PATIENCE)
    await look(platform)
    assert nodes.pass_deadlines() == []

    clock.advance(BARELY)
    assert (await look(platform)).state is PlatformState.RUNNING
    assert nodes.pass_deadlines() == [FIRST, SECOND]

    found = await look(platform)
    assert found.state is PlatformState.BROKEN
    assert "no room for all" in found.message


async def test_replicas_that_a_quota_keeps_from_being_made_are_lacking_too(
    platform: KubernetesPlatform, nodes: Nodes, clock: ManualClock
) -> None:
    await platform.submit(launch(job(replicas=2)))
    nodes.run(FIRST)
    clock.advance(GATHER_PATIENCE + BARELY)
    await look(platform)

    assert nodes.pass_deadlines() == [FIRST]


async def test_a_group_that_has_all_its_machines_may_take_its_time(
    platform: KubernetesPlatform, nodes: Nodes, clock: ManualClock
) -> None:
    await platform.submit(pair())
    nodes.exit(nodes.run(FIRST), 0)
    nodes.run(SECOND)
    clock.advance(GATHER_PATIENCE * 100)

    assert (await look(platform)).state is PlatformState.RUNNING
    assert nodes.pass_deadlines() == []


async def test_a_group_of_which_somebody_deleted_a_job_is_broken(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(pair())
    nodes.run(FIRST)
    nodes.emulator.objects[JOBS, "team", SECOND].delete()
    assert (await look(platform)).state is PlatformState.RUNNING
    nodes.pass_deadlines()

    found = await look(platform)

    assert found.state is PlatformState.BROKEN
    assert "1 of 2 jobs" in found.message


async def test_a_cancelled_job_is_over_when_its_pods_are(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.run(FIRST)
    await platform.cancel(NAME)
    assert (await look(platform)).state is PlatformState.RUNNING
    nodes.pass_deadlines()

    assert (await look(platform)).state is PlatformState.CANCELLED


async def test_the_first_reason_to_end_a_job_stays(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.wait(nodes.schedule(FIRST), "InvalidImageName", "cannot parse")
    await look(platform)
    await platform.cancel(NAME)
    nodes.pass_deadlines()

    assert (await look(platform)).state is PlatformState.FAILED


async def test_a_whole_group_is_cancelled(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(pair())
    nodes.run(FIRST)
    await platform.cancel(NAME)
    nodes.pass_deadlines()

    assert (await look(platform)).state is PlatformState.CANCELLED


async def test_a_group_that_never_started_is_gone_when_cancelled(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    nodes.emulator.refusals["PATCH", "jobs"] = (503, "shutting down")
    with pytest.raises(Unavailable):
        await platform.submit(pair())
    nodes.emulator.refusals.clear()
    await platform.cancel(NAME)

    assert nodes.all(JOBS) == {}
    assert await platform.get(NAME) is None


async def test_what_ended_before_the_cancel_stays_as_it_ended(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    nodes.exit(nodes.run(FIRST), 0)
    before = nodes.all(JOBS)
    await platform.cancel(NAME)

    assert nodes.all(JOBS) == before
    assert (await look(platform)).state is PlatformState.SUCCEEDED


async def test_what_fails_while_it_is_cancelled_failed(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))
    pod = nodes.run(FIRST)
    await platform.cancel(NAME)
    nodes.exit(pod, 9)

    found = await look(platform)

    assert (found.state, found.exit_code) == (PlatformState.FAILED, 9)


async def test_what_is_not_there(platform: KubernetesPlatform) -> None:
    assert await platform.get(NAME) is None
    assert await platform.find(LABEL) == []
    await platform.cancel(NAME)


async def test_launches_are_told_apart(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(launch(job()))
    await platform.submit(launch(job(), label="xm-abcd-2"))
    nodes.run("xm-abcd-2-0")

    assert (await look(platform)).state is PlatformState.PENDING


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_cluster_that_does_not_answer(
    platform: KubernetesPlatform, nodes: Nodes, status: int
) -> None:
    await platform.submit(launch(job()))
    nodes.emulator.refusals["GET", "jobs"] = (status, "not now")

    with pytest.raises(Unavailable, match="not now"):
        await platform.get(NAME)
    with pytest.raises(Unavailable):
        await platform.find(LABEL)
    with pytest.raises(Unavailable):
        await platform.cancel(NAME)
