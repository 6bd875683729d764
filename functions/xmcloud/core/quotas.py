"""What the quotas of a project and of a person allow, and how a refusal is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xmcloud.core.base import Model
from xmcloud.core.errors import OverQuota
from xmcloud.core.identity import Project, Quota
from xmcloud.core.names import Slug

Kind = Literal["running", "queued", "gpu_hours"]

_REMEDIES: dict[Kind, str] = {
    "running": "Wait until another job has ended",
    "queued": "Wait until some have started, or take some out of their queue",
    "gpu_hours": "Wait for the next month (UTC), or run it without GPUs",
}


class Turnstile(Model):
    """Which every claim in a project with a quota of running jobs passes.

    The jobs are counted after it was read and claimed together with its change, so that of two
    claims at once one counts again.
    """

    project: Slug
    passed: int


@dataclass(frozen=True, slots=True)
class Whose:
    """Of all in a project, or of one person in it."""

    project: str
    person: str = ""

    def does(self, what: str) -> str:
        """`project vision runs ...`, `ada runs ... in project vision`."""
        if self.person:
            return f"{self.person} {what} in project {self.project}"
        return f"project {self.project} {what}"


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that does not allow so many jobs more."""

    whose: Whose
    kind: Kind
    limit: float
    used: float
    more: int
    month: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "running":
                return self.whose.does(f"runs {self.used:g} of {self.limit:g} jobs")
            case "queued":
                return self.whose.does(f"has {self.used:g} of {self.limit:g} jobs queued")
            case "gpu_hours":
                used = f"has used {self.used:.1f} of {self.limit:g} GPU-hours of {self.month}"
                return self.whose.does(used)

    @property
    def remedy(self) -> str:
        flag = f"--{self.kind.replace('_', '-')} N" + (" --person" if self.whose.person else "")
        command = f"xmcloud project quota {self.whose.project} {flag}"
        return f"{_REMEDIES[self.kind]}, or have an admin raise the quota: {command}"

    def refusal(self) -> OverQuota:
        text = str(self)
        jobs = "1 job" if self.more == 1 else f"{self.more} jobs"
        with_gpus = " with GPUs" if self.kind == "gpu_hours" else ""
        quota = f"the quota {self.kind} is {self.limit:g}"
        detail = f"{text[0].upper()}{text[1:]}; this asks for {jobs}{with_gpus} more, and {quota}."
        return OverQuota(detail, self.remedy)


def quotas_of(project: Project, person: str) -> Iterator[tuple[Whose, Quota]]:
    """That of the whole project first."""
    yield Whose(project.name), project.quota
    yield Whose(project.name, person), project.person_quota


def limits_running(project: Project) -> bool:
    return project.quota.running is not None or project.person_quota.running is not None
