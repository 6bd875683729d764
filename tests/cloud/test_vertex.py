"""From a launch script through Cloud Build to Vertex AI and back, on this machine."""

import re
import shutil
import threading
from pathlib import Path

import pytest

from tests.cloud.rehearsal import Rehearsal, code, is_running
from xmcloud.core.models import JobState, Outcome, ReasonCode

pytestmark = [pytest.mark.docker, pytest.mark.emulator, pytest.mark.slow]

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "train"


def test_the_digits_sweep(cloud: Rehearsal, tmp_path: Path) -> None:
    """Results and logs come back, and an identical build is not made again."""
    shutil.copytree(DIGITS, tmp_path / "train")
    script = cloud.script(
        tmp_path,
        "digits",
        f"""
        spec = xm.PythonContainer(
            path="train", entrypoint=xm.ModuleName("train"), base_image={cloud.engine.base_image!r}
        )
        [train] = experiment.package([xm.Packageable(spec, xm_local.Vertex.Spec())])
        for rate in [0.001, 0.01, 0.1]:
            job = xm.Job(train, xm_local.Vertex(requirements=xm.JobRequirements(t4=1)))
            experiment.add(job, args={{"args": {{"hidden_units": 16, "learning_rate": rate}}}})
        """,
    )
    assert "built" in cloud.launch(script)
    jobs = cloud.results("digits")
    assert [job.state for job in jobs] == [JobState.COMPLETED] * 3, [job.reason for job in jobs]
    for job in jobs:
        accuracy = job.results["accuracy"]
        assert isinstance(accuracy, float)
        assert accuracy > 0.5
        assert re.search(rb"epoch 40: loss .*\n.*unseen digits", cloud.whole_log(job))
        assert job.attempts[0].remote is not None
        assert "customJobs" in job.attempts[0].remote.name
    assert "already built" in cloud.launch(script)
    again = cloud.results("digits")
    assert cloud.build_of(again[0]) == cloud.build_of(jobs[0])


def test_a_group_on_two_worker_pools(cloud: Rehearsal, tmp_path: Path) -> None:
    """Each job is told where the other one is, in one argument and in a variable."""
    code(
        tmp_path,
        "pair",
        """
        import json, os, socket, sys
        me, other, role = sys.argv[1:4]
        host, port = me.removeprefix("--me=").rsplit(":", 1)
        if role == "chief":
            with socket.create_server(("", int(port))) as server:
                told = server.accept()[0].recv(100).decode()
            results = {"told": told, "variable": os.environ["OTHER"], "words": sys.argv[4:]}
            open(os.environ["XMCLOUD_RESULTS"], "w").write(json.dumps(results))
        else:
            place = other.removeprefix("--other=").rsplit(":", 1)
            while True:
                try:
                    with socket.create_connection((place[0], int(place[1]))) as made:
                        made.sendall(f"hello from {me}".encode())
                    break
                except ConnectionRefusedError:
                    pass
        """,
    )
    script = cloud.script(
        tmp_path,
        "pair",
        """
        [pair] = experiment.package([image("pair", "python3 run.py")])
        def member(role, me, other, *words):
            names = [f"--me=%objectname({me})%", f"--other=%objectname({other})%"]
            return xm.Job(pair, xm_local.Vertex(), args=[*names, role, *words],
                          env_vars={"OTHER": f"http://%objectname({other})%/x"})
        experiment.add(xm.JobGroup(
            chief=member("chief", "chief", "helper", "two words", "%objectname(helper)% twice"),
            helper=member("helper", "helper", "chief"),
        ))
        """,
    )
    cloud.launch(script)
    chief, helper = sorted(cloud.results("pair"), key=lambda job: job.name)
    assert (chief.state, helper.state) == (JobState.COMPLETED,) * 2, (chief.reason, helper.reason)
    remotes = {job.attempts[0].remote for job in (chief, helper)}
    assert len(remotes) == 1
    told = chief.results["told"]
    assert isinstance(told, str)
    there = told.removeprefix("hello from --me=")
    assert re.fullmatch(r"[\w.-]+:\d+", there)
    assert chief.results["variable"] == f"http://{there}/x"
    assert chief.results["words"] == ["two words", f"{there} twice"]


def test_a_build_that_fails(cloud: Rehearsal, tmp_path: Path) -> None:
    """Its step and last lines are told; the other image is built, and its job runs."""
    code(tmp_path, "good", "print('fine')")
    code(tmp_path, "bad", "print('never')")
    script = cloud.script(
        tmp_path,
        "half built",
        """
        good, bad = experiment.package([
            image("good", "python3 run.py"),
            image("bad", "python3 run.py", ["RUN echo no such package >&2 && exit 3"]),
        ])
        experiment.add(xm.Job(good, xm_local.Vertex()))
        experiment.add(xm.Job(bad, xm_local.Vertex()))
        """,
    )
    said = cloud.launch(script, status=1)
    assert "RUN echo no such package" in said
    assert "no such package\n" in said
    good, bad = cloud.results("half built")
    assert good.state is JobState.COMPLETED
    assert (bad.state, bad.reason.code) == (JobState.FAILED, ReasonCode.BUILD_FAILED)
    assert "no such package" in bad.reason.message


def test_a_preempted_job_goes_on_from_its_checkpoint(cloud: Rehearsal, tmp_path: Path) -> None:
    code(
        tmp_path,
        "steps",
        """
        import json, os, pathlib, signal
        file = pathlib.Path(os.environ["XMCLOUD_CHECKPOINT"]) / "step"
        first = int(file.read_text()) if file.exists() else 0
        if first == 0:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("7")
            print("at step 7", flush=True)
            signal.pause()
        open(os.environ["XMCLOUD_RESULTS"], "w").write(json.dumps({"resumed_at": first}))
        """,
    )
    script = cloud.script(
        tmp_path,
        "preempted",
        """
        [steps] = experiment.package([image("steps", "python3 run.py")])
        experiment.add(xm.Job(steps, xm_local.Vertex(spot=True)))
        """,
    )
    cloud.launch(script)
    (job,) = cloud.when("preempted", is_running)
    cloud.until_logged(job, b"at step 7\n")
    cloud.fault("vertex", endings={"*": "preempt"})
    (job,) = cloud.results("preempted")
    assert (job.state, job.results) == (JobState.COMPLETED, {"resumed_at": 7}), job.reason
    first, second = job.attempts
    assert first.reason is not None
    assert (first.reason.code, second.outcome) == (ReasonCode.PREEMPTED, Outcome.COMPLETED)
    assert (job.losses, job.failures) == (1, 0)
    assert cloud.blob(f"checkpoints/{job.id}/step") == b"7"


def test_a_stop_while_it_is_built(cloud: Rehearsal, tmp_path: Path) -> None:
    """The build nobody waits for any more is stopped as well."""
    code(tmp_path, "unbuilt", "print('never')")
    script = cloud.script(
        tmp_path,
        "unbuilt",
        """
        [unbuilt] = experiment.package([image("unbuilt", "python3 run.py")])
        experiment.add(xm.Job(unbuilt, xm_local.Vertex()))
        """,
    )
    cloud.fault("build", hold=True)
    launching = threading.Thread(target=lambda: cloud.launch(script))
    launching.start()
    (job,) = cloud.when_there("unbuilt", lambda job: job.state is JobState.BUILDING)
    cloud("stop", job.experiment_id)
    launching.join()
    (job,) = cloud.jobs("unbuilt")
    assert (job.state, job.attempts) == (JobState.STOPPED, ())
    assert cloud.build_of(job).state == "stopped"


def test_a_stop_in_the_queue_and_at_work(cloud: Rehearsal, tmp_path: Path) -> None:
    """What runs is ended on the platform, and nothing of it is left on the engine."""
    code(tmp_path, "endless", "import signal; print('here', flush=True); signal.pause()")
    script = cloud.script(
        tmp_path,
        "endless",
        """
        [endless] = experiment.package([image("endless", "python3 run.py")])
        experiment.add(xm.Job(endless, xm_local.Vertex()))
        experiment.add(xm.Job(endless, xm_local.Vertex(queue="low")))
        """,
    )
    cloud("queue", "pause", "low")
    try:
        cloud.launch(script)
        running, queued = cloud.when_there(
            "endless", lambda job: is_running(job) or (job.unit == 2 and job.waiting is not None)
        )
        cloud.until_logged(running, b"here\n")
        cloud("stop", running.experiment_id)
        running, queued = cloud.results("endless")
    finally:
        cloud("queue", "resume", "low")
    assert (queued.state, queued.attempts) == (JobState.STOPPED, ())
    assert running.state is JobState.STOPPED
    assert running.attempts[0].remote is not None
    image = getattr(running.spec.executable, "image", "")
    assert cloud.engine.client().containers.list(filters={"ancestor": image}) == []


def test_two_hundred_units_of_one_image_are_one_build(cloud: Rehearsal, tmp_path: Path) -> None:
    code(tmp_path, "many", "print('one of many')")
    script = cloud.script(
        tmp_path,
        "many",
        """
        for _ in range(2):
            [many] = experiment.package([image("many", "python3 run.py")])
        for number in range(200):
            experiment.add(xm.Job(many, xm_local.Vertex(queue="low"), args={"number": number}))
        """,
    )
    cloud("queue", "pause", "low")
    try:
        cloud.launch(script)
        jobs = cloud.when_there("many", lambda job: job.waiting is not None)
        assert len(jobs) == 200
        assert len({getattr(job.spec.executable, "image", "") for job in jobs}) == 1
        builds = [build for build in cloud.client.builds(200).builds if build.spec.name == "many"]
        assert [(build.state, build.tries) for build in builds] == [("built", 1)]
        cloud("stop", jobs[0].experiment_id)
    finally:
        cloud("queue", "resume", "low")


def test_the_workers_first_and_then_the_cloud(cloud: Rehearsal, tmp_path: Path) -> None:
    """What fits the worker runs there; what never could goes to Vertex AI at once."""
    code(tmp_path, "either", "print('ran')")
    script = cloud.script(
        tmp_path,
        "either",
        """
        spec = xm_local.Overflow.Spec()
        [either] = experiment.package([image("either", "python3 run.py", executor_spec=spec)])
        for cpu in (1, 64):
            wanted = xm.JobRequirements(cpu=cpu)
            here_first = xm_local.Overflow(requirements=wanted, pool="local", after=3600)
            experiment.add(xm.Job(either, here_first))
        """,
    )
    cloud.launch(script)
    small, large = cloud.results("either")
    assert [job.state for job in (small, large)] == [JobState.COMPLETED] * 2, small.reason
    assert [job.attempts[0].worker for job in (small, large)] == ["local", "vertex"]
    assert [cloud.whole_log(job) for job in (small, large)] == [b"ran\n"] * 2
