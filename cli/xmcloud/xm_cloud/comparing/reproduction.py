"""Whether a copy did what its original did."""

from collections.abc import Iterator

from pydantic import JsonValue

from xmcloud.core.arguments import command_line
from xmcloud.core.models import Execution, Job, JobState
from xmcloud.core.requirements import lines_of, package_of
from xmcloud.core.specs import Binary, Command, GitSource, Image, JobSpec, PythonSource
from xmcloud.xm_cloud.comparing import facts
from xmcloud.xm_cloud.comparing.differences import Difference, Pair, Section, between
from xmcloud.xm_cloud.comparing.jobs import Side, compared_packages, compared_results, hidden

ARGV = "argv"


def reproduction(original: Side, copy: Side) -> Pair:
    """What ran, with which variables, and what came of it; also what could not be compared."""
    ran = facts.execution(copy.job)
    found: list[Difference] = []
    unknown: list[str] = []
    if ran is None:
        unknown.append(f"what ran: {copy.name} has no record of it")
    elif (before := facts.execution(original.job)) is not None:
        found += _executions(before, ran)
        found += compared_packages(original, copy)
        unknown += _missing_freeze(original, copy)
    else:
        unknown.append(f"Python and machine: {original.name} never ran on a worker")
        found += _with_definition(original.job.spec, ran, copy.freeze, unknown)
    variables = [dict(side.job.spec.environment) for side in (original, copy)]
    found += map(hidden, between(Section.ENVIRONMENT, variables[0], variables[1]))
    named = [dict(side.job.spec.secrets) for side in (original, copy)]
    found += between(Section.SECRETS, named[0], named[1])
    over = original.job.state.terminal
    expected = facts.outcome(original.job) if over else {"state": JobState.COMPLETED.value}
    ended = facts.outcome(copy.job)
    found += between(Section.OUTCOME, expected, ended if over else {"state": ended["state"]})
    if not over:
        unknown.append(f"how it ends: {original.name} is {original.job.state}")
    found += compared_results(original.job, copy.job)
    return Pair(a=original.name, b=copy.name, differences=found, unknown=unknown)


def was_seen(copy: Job) -> bool:
    """A worker told what it ran; without that, nothing can be called the same."""
    return facts.execution(copy) is not None


def _executions(a: Execution, b: Execution) -> Iterator[Difference]:
    yield from between(Section.CODE, {"code": a.code}, {"code": b.code})
    yield from between(Section.COMMAND, {ARGV: [*a.argv]}, {ARGV: [*b.argv]})
    yield from between(Section.MACHINE, {"Python": a.python}, {"Python": b.python})


def _missing_freeze(original: Side, copy: Side) -> Iterator[str]:
    if (original.freeze is None) != (copy.freeze is None):
        side = original if original.freeze is None else copy
        yield f"installed packages: {side.name} has no list of them"


def _with_definition(
    spec: JobSpec, ran: Execution, freeze: str | None, unknown: list[str]
) -> Iterator[Difference]:
    """For an original that ran where no worker saw it; adds to `unknown`."""
    if (code := _code(spec)) is None:
        unknown.append("code: the definition names no exact one")
    else:
        yield from between(Section.CODE, {"code": code}, {"code": ran.code})
    if (argv := _argv(spec)) is None:
        unknown.append("argv: an image starts what it declares")
    else:
        yield from between(Section.COMMAND, {ARGV: [*argv]}, {ARGV: [*ran.argv]})
    if not isinstance(spec.executable, PythonSource | GitSource):
        return
    if freeze is None:
        unknown.append("installed packages: the copy has no list of them")
        return
    lines = {package_of(line) or "": line for line in lines_of(spec.executable.requirements)}
    pinned = {name: _version(line) for name, line in lines.items() if name and _version(line)}
    if loose := sorted(name for name in lines if name and name not in pinned):
        unknown.append(f"versions that the requirements leave open: {', '.join(loose)}")
    installed = facts.packages(freeze)
    mine: dict[str, JsonValue] = {n: installed[n] for n in pinned if n in installed}
    yield from between(Section.PACKAGES, pinned, mine)


def _version(line: str) -> str:
    """The only one that the line allows, else ''."""
    _, pinned, version = line.partition("==")
    word = version.strip(" =").split(" ")[0].split(";")[0].strip("\\")
    return "" if not pinned or "*" in word or "," in word else word


def _code(spec: JobSpec) -> str | None:
    """As workers tell it."""
    match spec.executable:
        case GitSource() as git:
            return f"git:{git.commit}" + (f"+{git.diff}" if git.diff else "")
        case PythonSource() as source:
            return f"sha256:{source.archive}"
        case _:
            return None


def _argv(spec: JobSpec) -> tuple[str, ...] | None:
    match spec.executable:
        case Image():
            return None
        case PythonSource() | GitSource():
            start = spec.executable.entrypoint
        case Command():
            start = spec.executable.command
        case Binary():
            start = (spec.executable.name,)
    return Execution.command(command_line(start, spec.arguments))
