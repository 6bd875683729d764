"""What a job is made of: an executable, its arguments, what it needs, and where it may run."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from xmcloud.core.base import Json, Model
from xmcloud.core.names import Digest, EnvName, Id, Slug, Text
from xmcloud.core.repositories import Commit, RepositoryUrl, Requirements


class Argument(Model):
    """One argument: a flag when it has a name, else positional. Values keep their JSON type."""

    name: Text | None = None
    value: Json = None
    shell: bool = Field(False, description="Read by a shell on the machine where the job runs.")


class Command(Model):
    """A command that runs as it stands on the worker's machine."""

    kind: Literal["command"] = "command"
    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    directory: Text | None = None


PythonVersion = Annotated[
    str,
    Field(pattern=r"^(3\.\d{1,2}(\.\d{1,2})?)?$", description="3.12, 3.11.4; '': the worker's."),
]


class PythonSource(Model):
    """A source archive that runs in an environment made from its requirements."""

    kind: Literal["python_source"] = "python_source"
    archive: Digest
    directory: Text = Field(".", description="Working directory inside the archive.")
    entrypoint: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        description="Command inside the environment; the arguments follow it."
    )
    requirements: Text = Field("", description="'': what the archive's own files say.")
    python: PythonVersion = ""


class GitSource(Model):
    """A revision of a git repository, with what was not committed or not pushed yet."""

    kind: Literal["git_source"] = "git_source"
    repository: RepositoryUrl = Field(description="As git takes it, without credentials.")
    commit: Commit
    branch: Text = Field("", description="Where the commit was made, for people.")
    diff: Digest | None = Field(None, description="Uncommitted changes: a binary git patch.")
    bundle: Digest | None = Field(None, description="Commits that were not pushed: a git bundle.")
    directory: Text = Field(".", description="Working directory inside the repository.")
    entrypoint: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        description="Command inside the environment; the arguments follow it."
    )
    requirements: Requirements = Field("", description="'': what the repository's own files say.")
    python: PythonVersion = ""


class Binary(Model):
    """A program, carried as a blob: one executable file, or a file of an archive."""

    kind: Literal["binary"] = "binary"
    file: Digest
    name: Text = Field(description="What it is called; in an archive, its path there.")
    archive: bool = Field(False, description="`file` is a gzipped tar that holds the program.")


Port = Annotated[int, Field(ge=1, le=65535)]


class ContainerOptions(Model):
    """How a worker runs a container."""

    ports: dict[Port, Port] = Field({}, description="Of the container, to those of the host.")
    volumes: dict[Text, Text] = Field({}, description="Of the host, to those of the container.")
    mount_gcs: bool = Field(False, description="Cloud Storage is seen below /gcs.")
    interactive: bool = Field(False, description="With a terminal that people attach to.")


class Image(Model):
    """A container image, there already or made by a build; runs its own entrypoint by default."""

    kind: Literal["image"] = "image"
    image: Text = Field("", description="Reference, best with a digest; '' until it is built.")
    build: Id | None = Field(None, description="The build that makes it.")
    command: tuple[Text, ...] = Field((), description="In place of the image's entrypoint.")
    options: ContainerOptions = ContainerOptions()

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        if not self.image and self.build is None:
            raise ValueError("an image has a reference or a build")
        return self


Executable = Annotated[
    Command | PythonSource | GitSource | Binary | Image, Field(discriminator="kind")
]
Resources = dict[Slug, Annotated[float, Field(gt=0)]]


class Limits(Model):
    """When to give up. Failures of user code and of infrastructure have budgets of their own."""

    runtime_seconds: Annotated[float, Field(gt=0)] | None = None
    grace_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    retries: Annotated[int, Field(ge=0, le=20)] = 0
    infrastructure_retries: Annotated[int, Field(ge=0, le=20)] = 5


LabelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]


class Tensorboard(Model):
    """A Vertex AI TensorBoard instance, and where the job writes what it shows."""

    name: Text = Field(description="projects/../locations/../tensorboards/..")
    output: Text = Field(
        description="A folder in Cloud Storage: gs://..; '': one of the control plane's own."
    )


class VertexOptions(Model):
    """What only Vertex AI knows. A group takes those of its first job."""

    kind: Literal["vertex"] = "vertex"
    location: Text = Field("", description="A region; '': that of the control plane.")
    service_account: Text = ""
    network: Text = ""
    spot: bool = False
    restart: bool = Field(False, description="Restart the whole job when a worker restarts.")
    tensorboard: Tensorboard | None = None
    labels: dict[LabelName, LabelValue] = {}


class KubernetesOptions(Model):
    """What only Kubernetes knows. A group takes those of its first job."""

    kind: Literal["kubernetes"] = "kubernetes"
    namespace: Text = Field("", description="'': that of the control plane.")
    service_account: Text = ""
    spot: bool = False
    node_selector: dict[Text, Text] = {}
    labels: dict[LabelName, LabelValue] = {}


PlatformOptions = Annotated[VertexOptions | KubernetesOptions, Field(discriminator="kind")]


class Overflow(Model):
    """Where a job goes when its pool does not take it."""

    target: Slug
    after_seconds: Annotated[float, Field(ge=0, le=7 * 24 * 3600)]


class JobSpec(Model):
    """The definition of a job; changes only while the job is a draft."""

    executable: Executable
    arguments: tuple[Argument, ...] = ()
    environment: dict[EnvName, Text] = {}
    secrets: dict[EnvName, Slug] = Field(
        {},
        exclude_if=lambda given: not given,
        description="Variables whose values are secrets of the project, by name; workers alone "
        "are told them, when the job starts.",
    )
    resources: Resources = {}
    topology: Annotated[str, Field(pattern=r"^(\d+(x\d+)*)?$")] = Field(
        "", description="How the chips of a TPU hang together: 4x4."
    )
    replicas: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="Equal machines for the job, on a target; workers run one."
    )
    pool: Slug | Literal[""] = Field(
        "", description="The worker pool or target that must run it; '': any pool."
    )
    overflow: Overflow | None = None
    platform: PlatformOptions | None = None
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _has_one_value_for_each_variable(self) -> Self:
        if twice := self.environment.keys() & self.secrets.keys():
            raise ValueError(f"{min(twice)} is both in environment and in secrets")
        if own := [name for name in self.secrets if name.startswith("XMCLOUD_")]:
            raise ValueError(f"{own[0]} cannot be a secret: xmcloud sets such variables itself")
        return self


def pending_build(spec: JobSpec) -> str | None:
    """The build whose image the job has not got yet."""
    executable = spec.executable
    return executable.build if isinstance(executable, Image) and not executable.image else None


def with_image(spec: JobSpec, images: Mapping[str, str]) -> JobSpec:
    """The definition with the image of its build, if that is among `images`."""
    image = images.get(pending_build(spec) or "")
    return spec.evolve(executable=spec.executable.evolve(image=image)) if image else spec
