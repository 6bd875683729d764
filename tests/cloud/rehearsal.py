"""`xmcloud up --emulators --stand-ins` with a Docker engine, and launch scripts run against it."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx

from tests.e2e.stack import Stack, until
from tests.support.engine import DockerEngine
from xmcloud.core.builds import Build
from xmcloud.core.models import Job, JobState
from xmcloud.local.home import Home
from xmcloud.local.standins.addresses import BUCKET

HEAD = """
from xmcloud import xm, xm_local

def image(name, command, instructions=(), executor_spec=xm_local.Vertex.Spec(), **more):
    spec = xm.PythonContainer(
        path=name, entrypoint=xm.CommandList([command]), base_image={base!r},
        docker_instructions=[*instructions, f"COPY {{name}}/ {{name}}", f"WORKDIR {{name}}"],
    )
    return xm.Packageable(spec, executor_spec, **more)

def main(_):
    with xm_local.create_experiment(experiment_title={title!r}) as experiment:
"""


class Rehearsal(Stack):
    """The stack, and what its stand-ins are to do wrong."""

    def __init__(self, home: Path, cache: Path, engine: DockerEngine) -> None:
        super().__init__(home, cache, emulators=True)
        self.engine = engine
        self.environment |= engine.environment
        self._faults = ""

    def up(self, *, lease: float = 3600, slots: int = 2) -> None:
        self.environment["XMCLOUD_LEASE_SECONDS"] = str(lease)
        registry = f"--registry={self.engine.registry}"
        self("up", f"--slots={slots}", "--emulators", "--stand-ins", registry)
        variables = Home(self.home).rehearsal()
        assert variables is not None
        self._faults = variables["XMCLOUD_FAULTS"]

    def fault(self, service: str, **plan: object) -> None:
        """In place of what was planned for it before."""
        httpx.put(f"{self._faults}/{service}", json=plan, trust_env=False).raise_for_status()

    def script(self, folder: Path, title: str, body: str) -> Path:
        """A launch script in the folder, whose `body` adds to `experiment`."""
        head = HEAD.format(base=self.engine.base_image, title=title)
        path = folder / "launch.py"
        path.write_text(head + textwrap.indent(textwrap.dedent(body), " " * 8))
        return path

    def launch(self, script: Path, status: int = 0) -> str:
        """What it said."""
        return self("launch", str(script), status=status).stderr

    def experiment(self, title: str) -> str:
        """The id of the newest of that title."""
        found = self.json("list", "--limit=100")["experiments"]
        titles = {each["experiment"]["title"]: each["experiment"]["id"] for each in found[::-1]}
        return str(titles[title])

    def jobs(self, title: str) -> list[Job]:
        return list(self.client.jobs_of(self.experiment(title)))

    def results(self, title: str) -> list[Job]:
        """The jobs of the experiment, once all have ended."""
        return self.ended(self.experiment(title))

    def when(self, title: str, holds: Callable[[Job], bool]) -> list[Job]:
        """The jobs of the experiment, once it holds for each."""
        experiment = self.experiment(title)
        changes = self.client.changes(experiment)
        jobs = {job.id: job for job in changes.jobs}
        for _ in range(60):
            if jobs and all(map(holds, jobs.values())):
                return sorted(jobs.values(), key=lambda job: job.unit)
            changes = self.client.changes(experiment, changes.cursor, 1)
            jobs |= {job.id: job for job in changes.jobs}
        raise AssertionError([(job.name, job.state, job.reason) for job in jobs.values()])

    def when_there(self, title: str, holds: Callable[[Job], bool]) -> list[Job]:
        """As `when`, for an experiment that is about to be made."""
        until(lambda: title in self("list").stdout and bool(self.jobs(title)), f"{title} is there")
        return self.when(title, holds)

    def until_logged(self, job: Job, line: bytes) -> None:
        until(lambda: line in self.whole_log(job), f"{line!r} in the log")

    def blob(self, key: str) -> bytes:
        """From the control plane's own bucket."""
        addresses = Home(self.home).emulators()
        assert addresses is not None
        path = f"storage/v1/b/{BUCKET}/o/{quote(key, safe='')}"
        url = f"http://{addresses.storage}/{path}"
        return httpx.get(url, params={"alt": "media"}, trust_env=False).raise_for_status().content

    def build_of(self, job: Job) -> Build:
        build = getattr(job.spec.executable, "build", None)
        assert isinstance(build, str)
        return self.client.build(build)


def code(folder: Path, name: str, text: str) -> None:
    """A program `name/run.py` beside the launch script."""
    (folder / name).mkdir()
    (folder / name / "run.py").write_text(textwrap.dedent(text))


def is_running(job: Job) -> bool:
    return job.state is JobState.RUNNING
