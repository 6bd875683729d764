"""What a launch script waits for when it leaves its experiment."""

import sys
from collections.abc import Sequence

from xmcloud import xm
from xmcloud.core.builds import BuildState
from xmcloud.core.models import ReasonCode
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.units import AuxiliaryUnit, Unit
from xmcloud.xm_cloud.watcher import Watcher


def wait_for_units(client: Client, watcher: Watcher, units: Sequence[Unit]) -> None:
    """Until the images of all are built, and what runs on this machine has ended.

    Auxiliary units go on: the control plane ends them. Raises `xm.ExperimentUnitError` for the
    first unit whose image could not be built or, on this machine, that failed.
    """
    errors = _unbuilt(client, units)
    local = [unit for unit in units if unit.is_local and not isinstance(unit, AuxiliaryUnit)]
    errors += _failed(client, watcher, local)
    if errors:
        raise errors[0]


def _unbuilt(client: Client, units: Sequence[Unit]) -> list[xm.ExperimentUnitError]:
    waiting = {unit: wanted for unit in units if (wanted := _builds(unit))}
    if not waiting:
        return []
    from xmcloud.xm_cloud.packaging.images import BuildFailed, wait_for_builds

    builds = sorted(set().union(*waiting.values()))
    try:
        wait_for_builds(client, builds, _say)
    except BuildFailed:
        unbuilt = {id for id in builds if client.build(id).state is not BuildState.BUILT}
        hit = [unit for unit, wanted in waiting.items() if wanted & unbuilt]
        return [error for unit in hit if (error := _unbuildable(unit))]
    return []


def _builds(unit: Unit) -> set[str]:
    return {build for job in unit.jobs() if (build := job.pending_build)}


def _unbuildable(unit: Unit) -> xm.ExperimentUnitError | None:
    """What waits for a build that is no more ends with it."""
    jobs = [end.result() for end in unit.ends()]
    if any(job.reason.code is ReasonCode.BUILD_FAILED for job in jobs):
        return unit.error_of(jobs)
    return None


def _failed(
    client: Client, watcher: Watcher, units: Sequence[Unit]
) -> list[xm.ExperimentUnitError]:
    if not units:
        return []
    from xmcloud.xm_cloud.attaching import attach
    from xmcloud.xm_cloud.following import follow

    jobs = [(unit.local_executor(job), job) for unit in units for job in unit.jobs()]
    attached = {job.id for local, job in jobs if local.interactive and attach(watcher, job)}
    shown = {job.id for local, job in jobs if local.experimental_stream_output} - attached
    ended = {job.id: job for job in follow(client, watcher, [job for _, job in jobs], shown)}
    errors = (unit.error_of([ended[job.id] for job in unit.jobs()]) for unit in units)
    return [error for error in errors if isinstance(error, xm.ExperimentUnitFailedError)]


def _say(text: str) -> None:
    sys.stderr.write(f"xmcloud: {text}\n")
