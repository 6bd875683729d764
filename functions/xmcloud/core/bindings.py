"""Late bindings: arguments that name another job of the group, whose address is known at its start.

`%objectname(NAME)%` is the address `host:port` of the job NAME, as XManager has it; the first job
of a group is also `workerpool0`, the next `workerpool1`, as on Vertex AI. A job's full
name (`<experiment>_<unit>_<job>`) before a colon and a number is its host. Either is replaced
inside the one argument or value that it stands in.
"""

import re
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job, Peer
from xmcloud.core.specs import Argument, JobSpec

_NAMED = re.compile(r"%objectname\(([^()]*)\)%")
_NUMBERED = re.compile(r"workerpool(\d{1,4})", re.ASCII)


def bind(job: Job, peers: Mapping[str, Peer]) -> Job:
    """The job with the addresses of its peers, by name, filled in.

    Raises `InvalidInput` for a name that no job of the group has.
    """
    fill = _filler(job, peers)
    arguments = tuple(_bound(argument, fill) for argument in job.spec.arguments)
    environment = {name: fill(value) for name, value in job.spec.environment.items()}
    return job.evolve(spec=job.spec.evolve(arguments=arguments, environment=environment))


def names_bound(spec: JobSpec) -> set[str]:
    """The jobs that its arguments and environment name so."""
    texts = [*spec.environment.values()]
    for argument in spec.arguments:
        values = argument.value if isinstance(argument.value, list) else [argument.value]
        texts += [value for value in values if isinstance(value, str)]
    return {name for text in texts for name in _NAMED.findall(text)}


def _filler(job: Job, peers: Mapping[str, Peer]) -> Callable[[str], str]:
    prefix = f"{job.experiment_id}_{job.unit}_"
    longest_first = sorted(peers, key=len, reverse=True)
    hosts = re.compile(
        rf"(?<![\w-]){re.escape(prefix)}({'|'.join(map(re.escape, longest_first))})(?=:\d)"
    )

    def address(match: re.Match[str]) -> str:
        name = _member(job, match[1].removeprefix(prefix))
        if name not in peers:
            known = ", ".join(peers) or "none: the job is alone"
            raise InvalidInput("arguments", match[0], f"the name of a job of the group ({known})")
        return f"{peers[name].host}:{peers[name].port}"

    def fill(text: str) -> str:
        named = _NAMED.sub(address, text)
        return hosts.sub(lambda match: peers[match[1]].host, named) if peers else named

    return fill


def _member(job: Job, name: str) -> str:
    """The name of a job, which `workerpool<N>` gives by its number in the group."""
    names = [member.name for member in job.group]
    number = _NUMBERED.fullmatch(name)
    if number is None or name in names or int(number[1]) >= len(names):
        return name
    return names[int(number[1])]


def _bound(argument: Argument, fill: Callable[[str], str]) -> Argument:
    return argument.evolve(value=_filled(argument.value, fill))


def _filled(value: JsonValue, fill: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return fill(value)
    return [_filled(item, fill) for item in value] if isinstance(value, list) else value
