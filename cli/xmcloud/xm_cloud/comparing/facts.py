"""What is known of a job, by section and name."""

from collections import Counter
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from xmcloud.core.base import Model
from xmcloud.core.models import Execution, Job
from xmcloud.core.requirements import lines_of, normal, package_of
from xmcloud.core.specs import Argument, GitSource, JobSpec, PythonSource
from xmcloud.xm_cloud.comparing.differences import Section

Facts = Mapping[str, JsonValue]

DIFF = "uncommitted changes"
_CODE_NAMES = {"diff": DIFF}
_NOT_CODE = {"requirements", "branch", "bundle", "build", "options"}


def defined(spec: JobSpec) -> dict[Section, Facts]:
    """The definition."""
    return {
        Section.CODE: _code(spec),
        Section.PARAMETERS: _parameters(spec.arguments),
        Section.ENVIRONMENT: dict(spec.environment),
        Section.SECRETS: dict(spec.secrets),
        Section.REQUIREMENTS: _requirements(spec),
        Section.RESOURCES: _resources(spec),
    }


def execution(job: Job) -> Execution | None:
    """What a worker ran for its newest attempt."""
    return job.attempts[-1].execution if job.attempts else None


def machine(ran: Execution) -> Facts:
    """Where it ran."""
    gpus: list[JsonValue] = [*ran.gpus]
    return {"Python": ran.python, "host": ran.host, "GPUs": gpus}


def outcome(job: Job) -> Facts:
    """How it ended, or in which state it is."""
    code = job.reason.exit_code if job.state.terminal else None
    return {"state": job.state.value} | ({} if code is None else {"exit code": code})


def packages(freeze: str) -> dict[str, JsonValue]:
    """The version of each package of a list with NAME==VERSION lines, or where it is from."""
    found: dict[str, JsonValue] = {}
    for line in filter(None, map(str.strip, freeze.splitlines())):
        name, mark, version = line.partition("==" if " @ " not in line else " @ ")
        found[normal(name) if mark else line] = version
    return found


def results(job: Job) -> dict[str, JsonValue]:
    """Those inside of others by a name with dots."""
    return dict(_flat("", job.results))


def _code(spec: JobSpec) -> Facts:
    told = _plain(spec.executable)
    return {
        _CODE_NAMES.get(name, name): value
        for name, value in told.items()
        if name not in _NOT_CODE and value not in (None, "", [])
    }


def _parameters(arguments: tuple[Argument, ...]) -> Facts:
    """By flag, or by place among those without; a flag that comes again has its number."""
    seen: Counter[str] = Counter()
    found: dict[str, JsonValue] = {}
    for argument in arguments:
        name = argument.name or "argument"
        seen[name] += 1
        again = argument.name is None or seen[name] > 1
        value = {"shell": argument.value} if argument.shell else argument.value
        found[f"{name} {seen[name]}" if again else name] = value
    return found


def _requirements(spec: JobSpec) -> Facts:
    if not isinstance(spec.executable, PythonSource | GitSource):
        return {}
    lines = [line.strip() for line in lines_of(spec.executable.requirements)]
    return {package_of(line) or line: line for line in lines if line and line[0] != "#"}


def _resources(spec: JobSpec) -> Facts:
    options = {"options": spec.executable} if spec.executable.kind == "image" else {}
    nested: dict[str, JsonValue] = {
        "": dict(spec.resources),
        "limit": _plain(spec.limits),
        "overflow": _plain(spec.overflow) if spec.overflow else {},
        "platform": _plain(spec.platform) if spec.platform else {},
        **{name: _plain(image)["options"] for name, image in options.items()},
    }
    own: dict[str, JsonValue] = {"pool": spec.pool, "replicas": spec.replicas}
    topology: dict[str, JsonValue] = {"topology": spec.topology} if spec.topology else {}
    return {**own, **topology, **dict(_flat("", nested))}


def _plain(model: Model) -> dict[str, JsonValue]:
    return model.model_dump(mode="json")


def _flat(prefix: str, values: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for name, value in values.items():
        full = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict) and value:
            yield from _flat(full, value)
        elif value != {}:
            yield full, value
