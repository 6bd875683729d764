"""JSON that a command prints and the protocol has no answer for: several answers in one."""

from pathlib import Path

from xmcloud.core.base import Model, Time
from xmcloud.core.identity import Role, Scope
from xmcloud.core.models import Job
from xmcloud.core.protocol import ExperimentStatus, QueueStatus
from xmcloud.core.transfer import Import, Manifest


class ExperimentDocument(ExperimentStatus):
    """An experiment with all its jobs."""

    jobs: list[Job]


class QueueDocument(QueueStatus):
    """A queue with what waits in it, in order."""

    jobs: list[Job]


class WhoAmI(Model):
    """Who the control plane takes the caller for; `proof` is what tells it."""

    url: str
    source: str
    name: str
    roles: dict[Scope, Role]
    project: str
    proof: str
    expires_at: Time | None


class Stopped(Model):
    """The processes of this machine that were running."""

    stopped: list[str]


class Installed(Model):
    """The unit of a worker; `written` is false for one that was there already."""

    path: Path
    written: bool
    started: bool


class Background(Model):
    """A worker that was started and left running."""

    name: str
    url: str
    pid: int
    log: Path


class StoredFile(Model):
    """A file of a job: with `path` where it is written, `size` None of one that is gone."""

    name: str
    digest: str
    size: int | None
    path: Path | None = None


class StoredFiles(Model):
    """The files of a job, and a table of its series if that was asked for."""

    job: str
    files: list[StoredFile]
    points: Path | None = None


class Exported(Model):
    """A file that holds everything of a control plane."""

    path: Path
    size: int
    manifest: Manifest


class Imported(Model):
    """A file that was imported, and when."""

    path: Path
    manifest: Manifest
    done: Import
