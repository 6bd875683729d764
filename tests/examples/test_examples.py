"""The examples that people start from do what they say."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.e2e.stack import Stack
from tests.examples.rehearsal import DEADLINE, EXAMPLES, Launch, arguments
from xmcloud.core.models import Job, JobState
from xmcloud.core.specs import Image, VertexOptions

pytestmark = pytest.mark.docker


def completed(*jobs: Job) -> None:
    assert [(job.name, job.state, job.reason.message) for job in jobs] == [
        (job.name, JobState.COMPLETED, job.reason.message) for job in jobs
    ]


def image(job: Job) -> Image:
    assert isinstance(job.spec.executable, Image)
    return job.spec.executable


def builds(*jobs: Job) -> set[str | None]:
    return {image(job).build for job in jobs}


def ended(job: Job) -> float:
    end = job.attempts[-1].finished_at
    assert end is not None
    return end.timestamp()


def results(job: Job, name: str) -> float:
    value = job.results[name]
    assert isinstance(value, int | float)
    return value


def get(port: int, path: str) -> str:
    """What a server answers, once it is there."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=DEADLINE) as answer:
                return str(answer.read().decode())
        except (URLError, ConnectionError):
            assert time.monotonic() < deadline, f"nobody answers on {port}"
            time.sleep(0.1)


def test_tensorboard_unit_shows_the_work(launch: Launch, ports: Mapping[str, int]) -> None:
    curves: dict[str, dict[str, object]] = {}
    deadline = time.monotonic() + DEADLINE
    while len(curves) < 2:
        assert time.monotonic() < deadline, launch.said
        curves = json.loads(get(ports["board"], "data/plugin/scalars/tags"))
        time.sleep(0.1)
    assert {name.rpartition("/")[2]: list(tags) for name, tags in curves.items()} == {
        "0.1": ["accuracy"],
        "0.01": ["accuracy"],
    }


def test_tensorboard_sweep(launch: Launch, stack: Stack) -> None:
    jobs = launch.jobs()
    completed(*jobs)
    trials = [(arguments(job)["hidden_units"], arguments(job)["learning_rate"]) for job in jobs]
    assert trials == [(8, 0.03), (8, 0.1), (32, 0.03), (32, 0.1)]
    assert results(jobs[3], "loss") < results(jobs[0], "loss")
    assert len(builds(*jobs)) == 1
    assert all(job.spec.resources == {"t4": 1.0} for job in jobs)
    experiment = jobs[0].experiment_id
    for index, job in enumerate(jobs):
        options = job.spec.platform
        assert isinstance(options, VertexOptions)
        assert options.tensorboard is not None
        assert options.tensorboard.output == f"gs://xmcloud-local/{experiment}/{index}"
        written = stack.home / "blobs" / experiment / str(index) / "logs"
        assert len(list(written.glob("events.out.tfevents.*"))) == 1


def test_tpu(launch: Launch, stack: Stack) -> None:
    small, large = launch.jobs()
    completed(small, large)
    assert small.spec.resources == {"tpu-v2": 8.0}
    assert len(builds(small, large)) == 1
    assert 4.0 < results(small, "eigenvalue") < results(large, "eigenvalue") < 4.083
    assert stack.whole_log(small).startswith(b"numpy: the largest eigenvalue of 64 x 64 is 4.0")


def test_multi_worker(launch: Launch, stack: Stack) -> None:
    fast, slow = launch.units()
    completed(*fast, *slow)
    assert [job.name for job in fast] == ["worker_0", "worker_1", "worker_2"]
    assert len(builds(*fast, *slow)) == 1
    agree_about_the_cluster(stack, fast, {"worker": 3})
    assert len({results(job, "loss") for job in fast}) == 1
    assert results(fast[0], "loss") < 1e-9 < results(slow[0], "loss")


def test_parameter_server(launch: Launch, stack: Stack) -> None:
    fast, slow = launch.units()
    completed(*fast, *slow)
    assert [job.name for job in fast] == ["chief_0", "worker_0", "worker_1", "ps_0"]
    agree_about_the_cluster(stack, fast, {"chief": 1, "worker": 2, "ps": 1})
    assert results(fast[0], "loss") < results(slow[0], "loss") < 0.1
    assert b"served 3 clients, 200 changes\n" in stack.whole_log(fast[-1])


def agree_about_the_cluster(stack: Stack, jobs: list[Job], sizes: Mapping[str, int]) -> None:
    """All know the same addresses, and which of them is theirs."""
    heads = [stack.whole_log(job).decode().splitlines()[0].split(" of ") for job in jobs]
    names = [f"{kind} {index}" for kind, size in sizes.items() for index in range(size)]
    assert [name for name, _ in heads] == names
    [cluster] = {cluster for _, cluster in heads}
    addresses = json.loads(cluster)
    assert {kind: len(those) for kind, those in addresses.items()} == sizes
    every = [address for those in addresses.values() for address in those]
    assert len(set(every)) == len(jobs)
    assert all(address.rpartition(":")[2].isdecimal() for address in every)


def test_async_group(launch: Launch, stack: Stack) -> None:
    said = launch.ended()
    assert said.endswith("Experiment completed.\n")
    units = launch.units()
    assert [[job.name for job in unit] for unit in units] == [["node_0", "node_1"]] * 2
    for unit in units:
        completed(*unit)
        first, second = (stack.whole_log(job).decode().splitlines()[0] for job in unit)
        address = first.removeprefix("rank 0 of 2, the first is ")
        assert second == f"rank 1 of 2, the first is {address}"
        assert address.rpartition(":")[2].isdecimal()
        assert results(unit[0], "accuracy") == results(unit[1], "accuracy") > 0.9


def test_image_or_code(launch: Launch, stack: Stack, base_image: str, tmp_path: Path) -> None:
    from_code = [job for [job] in launch.units()]
    [built] = {stack.client.build(build).image for build in builds(*from_code) if build}
    script = EXAMPLES / "image_or_code" / "launch.py"
    flags = [base_image, f"--image_path={built}", "--platform=gpu", "--cores=2"]
    again = Launch(stack, script, flags, tmp_path / "log")
    from_image = [job for [job] in again.units()]
    completed(*from_code, *from_image)
    assert {job.name for job in from_code + from_image} == {"coordinator"}
    assert [(image(job).image, image(job).build) for job in from_image] == [(built, None)] * 2
    assert [job.spec.resources for job in (from_code[0], from_image[0])] == [{}, {"t4": 2.0}]
    assert [job.results for job in from_image] == [job.results for job in from_code]
    assert stack.whole_log(from_image[1]).startswith(b"degree 3 on gpu: loss 0.000")


def test_dockerfile(launch: Launch, stack: Stack) -> None:
    [job] = launch.jobs()
    completed(job)
    assert stack.whole_log(job).decode().splitlines() == [
        'arguments ["--from=0", "--to=3", "--steps=1000", "x ** 2"]',
        "simpson: 9.000000",
    ]
    assert results(job, "integral") == pytest.approx(9)


def test_packageable_args(launch: Launch, stack: Stack) -> None:
    jobs = launch.jobs()
    completed(*jobs)
    assert len(builds(*jobs)) == 1
    logs = [stack.whole_log(job).decode().splitlines() for job in jobs]
    config = "--config_file=/settings/small.json"
    assert [json.loads(log[0].removeprefix("arguments ")) for log in logs] == [
        [config, "--seed=1", "--verbose"],
        [config, "--seed=2"],
        [config, "--seed=3", "--verbose", "--episodes=200"],
    ]
    assert [log[-1].partition(":")[0] for log in logs] == ["q-learning", "q-learning", "sarsa"]
    assert [job.results for job in jobs[1:]] == [
        {"steps": 7, "episodes": 100},
        {"steps": 7, "episodes": 200},
    ]


def test_container_links(
    launch: Launch, stack: Stack, ports: Mapping[str, int], folder: Path
) -> None:
    seen = [get(ports["server"], page) for page in ("a", "b", "a")]
    assert seen == [
        "a was seen 1 times\n",
        "b was seen 1 times\n",
        "a was seen 2 times\n",
    ]
    [[server, store]] = launch.units()
    completed(server, store)
    assert (server.name, store.name) == ("server", "store")
    assert f"found {store.full_name}," in stack.whole_log(server).decode()
    assert {file.name: file.read_text() for file in (folder / "store").iterdir()} == {
        "a": "2",
        "b": "1",
    }


def test_search(launch: Launch, stack: Stack) -> None:
    jobs = launch.jobs()
    completed(*jobs)
    numbers = [str(arguments(job)["trial_name"]).rpartition("/trials/")[2] for job in jobs]
    assert numbers == ["1", "2", "3", "4", "5"]
    assert len({(arguments(job)["x"], arguments(job)["y"]) for job in jobs}) == 5
    for job in jobs:
        x, y = arguments(job)["x"], arguments(job)["y"]
        assert -2 <= x <= 2
        assert results(job, "loss") == pytest.approx((1 - x) ** 2 + 100 * (y - x**2) ** 2)
    best = min(results(job, "loss") for job in jobs)
    assert f"with loss={best:.6g}\n" in launch.said


def test_bazel_local(bazel_workspace: Path, stack: Stack, tmp_path: Path) -> None:
    flags = [f"--output={tmp_path / 'primes.txt'}"]
    launch = Launch(stack, bazel_workspace / "launch.py", flags, tmp_path / "log")
    [job] = launch.jobs()
    completed(job)
    assert stack.whole_log(job) == b"1229 primes\n"
    assert (tmp_path / "primes.txt").read_text().splitlines()[-1] == "9973"


def test_a_terminal_becomes_that_of_the_container(stack: Stack, base_image: str) -> None:
    script = str(EXAMPLES / "local_gpu" / "launch.py")
    terminal = stack.on_terminal("launch", script, "--", base_image, "--gpus=0", "--interactive")
    terminal.until_shown("0 GPUs, terminal: True")
    terminal.until_shown("x (empty to end): ")
    terminal.write("10\r")
    terminal.until_shown("y is about 21.0")
    terminal.write("\r")
    assert terminal.end() == 0
    assert "1 completed" in terminal.text


def test_a_container_asks_for_gpus(stack: Stack, base_image: str) -> None:
    script = str(EXAMPLES / "local_gpu" / "launch.py")
    plan = json.loads(stack("launch", "--dry-run", "--json", script, "--", base_image).stdout)
    assert [job["accelerators"] for job in plan["jobs"]] == [{"gpu": 1.0}]


def test_tensorboard_unit_ends_after_the_work(launch: Launch) -> None:
    board, fast, slow = launch.jobs()
    completed(board, fast, slow)
    assert board.auxiliary is not None
    assert (fast.auxiliary, slow.auxiliary) == (None, None)
    assert ended(board) > max(ended(fast), ended(slow))
    assert "the units that it helps have ended" in board.reason.message
    assert results(fast, "accuracy") > results(slow, "accuracy") > 0.7


@pytest.mark.skipif(
    not Path("/dev/nvidia0").exists(), reason="a GPU: run it on a machine that has one of NVIDIA"
)
def test_a_container_gets_a_gpu(stack: Stack, base_image: str, tmp_path: Path) -> None:
    script = EXAMPLES / "local_gpu" / "launch.py"
    [job] = Launch(stack, script, [base_image], tmp_path / "log").jobs()
    completed(job)
    assert stack.whole_log(job).startswith(b"1 GPUs")
