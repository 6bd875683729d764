"""The suite of the `Platform` port over a cluster whose pods run as processes.

What Kubernetes does otherwise is left out of the imports, and stands below: a label names one
launch, however often it is submitted, and nothing is published.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.platforms import Bench, ended, group, job, launch, one
from tests.contracts.test_platform import (  # noqa: F401
    test_a_failure_tells_the_exit_code_and_the_last_lines,
    test_a_group_fails_with_any_of_its_jobs,
    test_a_job_that_is_not_there_is_none_and_needs_no_cancel,
    test_a_job_that_the_platform_loses_is_broken,
    test_a_job_whose_machines_go_is_preempted,
    test_a_quota_refuses_for_now,
    test_a_refusal_is_for_good,
    test_a_running_job_is_cancelled,
    test_a_silent_platform_is_unavailable,
    test_a_submission_that_was_lost_is_not_found,
    test_a_submission_whose_answer_is_lost_is_found,
    test_a_waiting_job_is_cancelled,
    test_arguments_and_environment_arrive_byte_for_byte,
    test_only_images_run_there,
    test_other_events_name_no_job,
    test_the_attempt_comes_before_the_jobs_own_environment,
    test_what_has_ended_stays_as_it_is_when_cancelled,
    test_what_is_found_ends_as_what_is_got,
)
from tests.kubernetes.cluster import Nodes
from tests.kubernetes.kubelet import Kubelet
from xmcloud.adapters.kubernetes.platform import KubernetesPlatform
from xmcloud.core.platforms import PlatformState
from xmcloud.core.specs import KubernetesOptions

pytestmark = pytest.mark.anyio

CREATE = ("POST", "jobs")


class KubernetesBench(Bench):
    def __init__(self, platform: KubernetesPlatform, nodes: Nodes, kubelet: Kubelet) -> None:
        self.platform = platform
        self.events = []
        self._emulator = nodes.emulator
        self._kubelet = kubelet

    def refuse_for_quota(self) -> None:
        self._emulator.refusals_once[CREATE] = (403, "exceeded quota: jobs")

    def refuse(self) -> None:
        self._emulator.refusals_once[CREATE] = (422, "Job is invalid")

    def lose_request(self) -> None:
        self._emulator.refusals_once[CREATE] = (503, "shutting down")

    def lose_answer(self) -> None:
        self._emulator.lost_answers.add(CREATE)

    def fall_silent(self) -> None:
        for call in (CREATE, ("GET", "jobs")):
            self._emulator.refusals[call] = (503, "shutting down")

    def hold(self) -> None:
        self._kubelet.hold = True

    def preempt(self, label: str) -> None:
        self._kubelet.take_machine(f"{label}-0")

    def lose(self, label: str) -> None:
        self._kubelet.broken.add(label)
        self._emulator.changed.set()

    def spot(self) -> KubernetesOptions:
        return KubernetesOptions(spot=True)

    def printed(self, name: str, job: int = 0) -> str:
        return self._kubelet.log(name.rpartition("/")[2], job).read_text()


@pytest.fixture
async def bench(platform: KubernetesPlatform, nodes: Nodes, tmp_path: Path) -> AsyncIterator[Bench]:
    kubelet = Kubelet(nodes, tmp_path)
    working = asyncio.create_task(kubelet.work())
    yield KubernetesBench(platform, nodes, kubelet)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_a_job_runs_to_its_end(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("echo done")))
    told = await ended(bench.platform, submitted.name)
    assert (told.name, told.state) == (submitted.name, PlatformState.SUCCEEDED)
    assert bench.printed(told.name) == "done\n"


async def test_a_label_names_one_launch(bench: Bench) -> None:
    names = {(await bench.platform.submit(launch("a", one("true")))).name for _ in range(2)}
    other = await bench.platform.submit(launch("a-2", one("true")))
    assert [found.name for found in await bench.platform.find("a")] == [*names]
    assert [found.name for found in await bench.platform.find("a-2")] == [other.name]


async def test_a_group_starts_together_and_ends_with_its_last_job(bench: Bench) -> None:
    both = group(job("chief", "echo chief"), job("worker", "echo $XMCLOUD_PEERS"))
    submitted = await bench.platform.submit(launch("a", *both))
    assert (await ended(bench.platform, submitted.name)).state is PlatformState.SUCCEEDED
    assert bench.printed(submitted.name) == "chief\n"
    assert "a-0-0.a.team.svc:2222" in bench.printed(submitted.name, 1)
