"""What the cluster is asked to run."""

import json
from typing import Any

import pytest

from tests.kubernetes.cluster import JOBS, SERVICES, Nodes, expanded
from tests.kubernetes.launches import LABEL, job, launch, options, pair
from xmcloud.adapters.kubernetes.platform import KubernetesPlatform
from xmcloud.core.errors import InvalidInput, Unavailable
from xmcloud.core.platforms import PlatformRefused, PlatformState, QuotaExceeded
from xmcloud.core.specs import Argument, Command, Image, Limits, VertexOptions

pytestmark = pytest.mark.anyio

CREATE_JOB = ("POST", "jobs")
AWKWARD = ["$(HOME)", "$$", "$$(HOME)", "a$b$", "'; rm -rf \"", "", "ü\n", "--x=$(HOME)$"]


async def only_job(nodes: Nodes, namespace: str = "team") -> dict[str, Any]:
    [found] = nodes.all(JOBS, namespace).values()
    return found


def pod_of(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


async def test_a_job_runs_once_with_what_it_asked_for(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    wanted = job(
        resources={"cpu": 1.5, "memory": 2**30, "disk": 10**10, "a100-80gib": 2},
        limits=Limits(runtime_seconds=90, grace_seconds=7),
        platform=options(
            service_account="trainer", spot=True, node_selector={"zone": "a"}, labels={"team": "x"}
        ),
    )
    submitted = await platform.submit(launch(wanted, SEED="3"))

    assert (submitted.name, submitted.state) == (f"team/{LABEL}", PlatformState.PENDING)
    made = await only_job(nodes)
    spec, pod = made["spec"], pod_of(made)
    [container] = pod["containers"]
    assert spec["backoffLimit"] == 0
    actions = [rule["action"] for rule in spec["podFailurePolicy"]["rules"]]
    assert actions == ["FailJob", "FailJob"]
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert spec["ttlSecondsAfterFinished"] == 7 * 24 * 3600
    assert "suspend" not in spec
    assert (pod["restartPolicy"], pod["enableServiceLinks"]) == ("Never", False)
    assert (pod["activeDeadlineSeconds"], pod["terminationGracePeriodSeconds"]) == (90, 7)
    assert pod["serviceAccountName"] == "trainer"
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-accelerator": "nvidia-a100-80gb",
        "cloud.google.com/gke-spot": "true",
        "zone": "a",
    }
    assert pod["tolerations"][0]["key"] == "cloud.google.com/gke-spot"
    assert container["resources"]["limits"] == {
        "cpu": "1500m",
        "memory": str(2**30),
        "ephemeral-storage": str(10**10),
        "nvidia.com/gpu": "2",
    }
    assert container["image"] == "example.com/train@sha256:1"
    assert container["env"] == [{"name": "SEED", "value": "3"}]
    labels = {
        "team": "x",
        "xmcloud-label": LABEL,
        "xmcloud-experiment": wanted.experiment_id,
        "xmcloud-unit": "1",
        "xmcloud-job": wanted.id,
    }
    assert made["metadata"]["labels"] == spec["template"]["metadata"]["labels"] == labels
    assert nodes.all(SERVICES) == {}


async def test_arguments_and_variables_reach_the_process_as_they_are(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    executable = Image(image="i", command=("python", "$(HOME)"))
    arguments = tuple(Argument(value=value) for value in AWKWARD)
    wanted = job(executable=executable, arguments=arguments)
    await platform.submit(launch(wanted, HOME="/root", PRICE="$(HOME)$5"))

    [container] = pod_of(await only_job(nodes))["containers"]
    known = {"HOME": "/root"}
    assert [expanded(text, known) for text in container["args"]] == AWKWARD
    assert [expanded(text, known) for text in container["command"]] == ["python", "$(HOME)"]
    variables = {each["name"]: expanded(each["value"], known) for each in container["env"]}
    assert variables == {"HOME": "/root", "PRICE": "$(HOME)$5"}


async def test_an_image_alone_runs_as_it_was_made(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    await platform.submit(launch(job()))

    [container] = pod_of(await only_job(nodes))["containers"]
    assert "command" not in container
    assert "args" not in container


async def test_jobs_of_a_group_find_each_other(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(pair())

    jobs = nodes.all(JOBS)
    [(service_name, service)] = nodes.all(SERVICES).items()
    chief, helper = (jobs[f"{LABEL}-{index}"] for index in (0, 1))
    address = f"{LABEL}-0-0.{service_name}.team.svc:2222"
    [container] = pod_of(helper)["containers"]
    assert container["args"] == [f"--chief={address}"]
    for each in (chief, helper):
        variables = {v["name"]: v["value"] for v in pod_of(each)["containers"][0]["env"]}
        assert json.loads(variables["XMCLOUD_PEERS"]) == {
            "chief": address,
            "helper": address.replace("-0-0.", "-1-0."),
        }
        assert pod_of(each)["subdomain"] == service_name
        assert each["spec"]["completionMode"] == "Indexed"
        assert each["spec"]["suspend"] is False
        assert each["spec"]["ttlSecondsAfterFinished"] == 30 * 24 * 3600
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= (
        chief["spec"]["template"]["metadata"]["labels"].items()
    )
    owners = {owner["uid"] for owner in service["metadata"]["ownerReferences"]}
    assert owners == {each["metadata"]["uid"] for each in (chief, helper)}


async def test_replicas_are_pods_of_one_job(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(launch(job(replicas=3)))

    spec = (await only_job(nodes))["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (3, 3, "Indexed")
    assert len(nodes.all(SERVICES)) == 1


@pytest.mark.parametrize(
    ("kind", "chips", "topology", "each", "pods", "selected"),
    [
        ("tpu-v5e", 8, "", "8", 1, ("tpu-v5-lite-podslice", "2x4")),
        ("tpu-v5e", 16, "4x4", "4", 4, ("tpu-v5-lite-podslice", "4x4")),
        ("tpu-v4", 8, "2x2x2", "4", 2, ("tpu-v4-podslice", "2x2x2")),
        ("tpu-v6e", 1, "", "1", 1, ("tpu-v6e-slice", "1x1")),
    ],
)
async def test_a_tpu_has_a_pod_for_each_of_its_machines(
    platform: KubernetesPlatform,
    nodes: Nodes,
    kind: str,
    chips: int,
    topology: str,
    each: str,
    pods: int,
    selected: tuple[str, str],
) -> None:
    await platform.submit(launch(job(resources={kind: chips}, topology=topology)))

    made = await only_job(nodes)
    [container] = pod_of(made)["containers"]
    assert container["resources"]["limits"]["google.com/tpu"] == each
    assert made["spec"].get("parallelism", 1) == pods
    assert tuple(pod_of(made)["nodeSelector"].values()) == selected


async def test_a_label_that_is_no_name_in_dns_still_names_the_launch(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    label = "9" * 63
    submitted = await platform.submit(launch(job(replicas=1000), label=label))

    [name] = nodes.all(JOBS)
    assert len(f"{name}-999") <= 63
    assert name[0].isalpha()
    assert [each.name for each in await platform.find(label)] == [submitted.name]


async def test_a_launch_goes_to_the_namespace_that_its_options_name(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    submitted = await platform.submit(launch(job(platform=options(namespace="shared"))))

    assert submitted.name == f"shared/{LABEL}"
    assert await only_job(nodes, "shared")
    assert [each.name for each in await platform.find(LABEL)] == [submitted.name]


async def test_submitting_twice_starts_one(platform: KubernetesPlatform, nodes: Nodes) -> None:
    await platform.submit(pair())
    before = nodes.all(JOBS)
    await platform.submit(pair())

    assert nodes.all(JOBS).keys() == before.keys()
    assert len(await platform.find(LABEL)) == 1


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (403, 'jobs "x" is forbidden: exceeded quota: small', QuotaExceeded),
        (403, "jobs is forbidden: no access", PlatformRefused),
        (404, 'namespaces "team" not found', PlatformRefused),
        (422, "Job is invalid: spec", PlatformRefused),
        (400, "bad request", PlatformRefused),
        (401, "Unauthorized", Unavailable),
        (429, "too many requests", Unavailable),
        (500, "etcd is gone", Unavailable),
        (503, "shutting down", Unavailable),
    ],
)
async def test_what_the_cluster_refuses(
    platform: KubernetesPlatform,
    nodes: Nodes,
    status: int,
    message: str,
    error: type[Exception],
) -> None:
    nodes.emulator.refusals[CREATE_JOB] = (status, message)
    with pytest.raises(error, match=message.partition(":")[0]):
        await platform.submit(launch(job()))


async def test_of_a_group_that_is_refused_nothing_stays(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    nodes.emulator.refusals["POST", "services"] = (403, "exceeded quota: services")
    with pytest.raises(QuotaExceeded):
        await platform.submit(pair())

    assert nodes.all(JOBS) == {}
    assert await platform.find(LABEL) == []


async def test_a_group_whose_start_was_cut_off_is_started_by_who_looks(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    nodes.emulator.refusals["PATCH", "jobs"] = (503, "shutting down")
    with pytest.raises(Unavailable):
        await platform.submit(pair())
    assert all(each["spec"]["suspend"] for each in nodes.all(JOBS).values())
    nodes.emulator.refusals.clear()

    [found] = await platform.find(LABEL)

    assert found.state is PlatformState.PENDING
    assert not any(each["spec"]["suspend"] for each in nodes.all(JOBS).values())


async def test_a_group_that_is_there_in_part_never_starts(
    platform: KubernetesPlatform, nodes: Nodes
) -> None:
    nodes.emulator.refusals["POST", "services"] = (503, "shutting down")
    with pytest.raises(Unavailable):
        await platform.submit(pair())
    nodes.emulator.refusals.clear()
    nodes.emulator.objects[JOBS, "team", f"{LABEL}-1"].delete()

    [found] = await platform.find(LABEL)

    assert found.state is PlatformState.BROKEN
    assert "1 of 2 jobs" in found.message
    assert nodes.all(JOBS) == {}
    assert await platform.find(LABEL) == []


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (job(executable=Command(command=("true",))), "executable.kind"),
        (
            job(executable=Image.model_validate({"image": "i", "options": {"ports": {80: 80}}})),
            "executable.options.ports",
        ),
        (job(platform=VertexOptions()), "platform.kind"),
        (job(platform=options(namespace="kube-system")), "platform.namespace"),
        (job(platform=options(labels={"xmcloud-job": "x"})), "platform.labels"),
        (job(resources={"b40-48th": 1}), "resources"),
        (job(resources={"t4": 1, "p4": 1}), "resources"),
        (job(resources={"t4": 1.5}), "resources.t4"),
        (job(resources={"tpu-v4": 5}), "resources.tpu-v4"),
        (job(resources={"tpu-v4": 8}, topology="2x2x1"), "topology"),
        (job(resources={"tpu-v4": 8}, replicas=3), "replicas"),
        (job(arguments=(Argument(value="%objectname(nobody)%"),)), "arguments"),
    ],
)
def test_what_could_never_run_is_refused_before_any_call(
    platform: KubernetesPlatform, nodes: Nodes, wanted: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        platform.check([wanted])
    assert caught.value.field == field
    assert nodes.emulator.seen == []


def test_what_could_run_passes(platform: KubernetesPlatform) -> None:
    platform.check([job(resources={"cpu": 2, "gpu": 1})])
    platform.check(pair(resources={"l4-24th": 1}).jobs)


def test_a_cluster_publishes_no_events(platform: KubernetesPlatform) -> None:
    assert platform.event("{}") is None
