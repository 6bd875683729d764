"""Every query that the control plane asks, in one place."""

from datetime import datetime

from xmcloud.core.base import sortable
from xmcloud.core.models import JobState
from xmcloud.core.ports import Filter, Query


def _equal(**fields: str | int) -> tuple[Filter, ...]:
    return tuple(Filter(name, "==", value) for name, value in fields.items())


def experiments() -> Query:
    """The newest first."""
    return Query("experiments", order=(("created_at", "desc"),))


def experiments_in(project: str) -> Query:
    """The newest first."""
    return Query("experiments", _equal(project=project), (("created_at", "desc"),))


def queues() -> Query:
    """The highest priority first."""
    return Query("queues", order=(("priority", "desc"),))


def paused_queues() -> Query:
    """Seldom any."""
    return Query("queues", _equal(paused=True))


def jobs_of(experiment: str) -> Query:
    """In order of unit."""
    return Query("jobs", _equal(experiment_id=experiment), (("unit", "asc"),))


def jobs_of_unit(experiment: str, unit: int) -> Query:
    """The jobs of one unit."""
    return Query("jobs", _equal(experiment_id=experiment, unit=unit))


def jobs_in_state(experiment: str, state: JobState) -> Query:
    """For counting."""
    return Query("jobs", _equal(experiment_id=experiment, state=state.value))


def in_state(state: JobState) -> Query:
    """For counting, over all experiments."""
    return Query("jobs", _equal(state=state.value))


def changed_jobs(experiment: str, since: datetime) -> Query:
    """Changed at `since` or later, the earliest change first."""
    where = (*_equal(experiment_id=experiment), Filter("updated_at", ">=", sortable(since)))
    return Query("jobs", where, (("updated_at", "asc"),))


def claimable(queue: str, pool: str) -> Query:
    """What waits in a queue for exactly that pool ('': for any), in order of position."""
    where = _equal(queue=queue, state=JobState.QUEUED.value, pool=pool)
    return Query("jobs", where, (("position", "asc"),))


def waiting(queue: str) -> Query:
    """What waits in a queue for whomever, in order of position."""
    where = _equal(queue=queue, state=JobState.QUEUED.value)
    return Query("jobs", where, (("position", "asc"),))


def waiting_before(queue: str, position: int) -> Query:
    """What waits ahead of a position, the nearest first."""
    where = (
        *_equal(queue=queue, state=JobState.QUEUED.value),
        Filter("position", "<", position),
    )
    return Query("jobs", where, (("position", "desc"),))


def waiting_after(queue: str, position: int) -> Query:
    """What waits behind a position, the nearest first."""
    where = (
        *_equal(queue=queue, state=JobState.QUEUED.value),
        Filter("position", ">", position),
    )
    return Query("jobs", where, (("position", "asc"),))


def last_waiting(queue: str) -> Query:
    """What waits in a queue, the last in line first."""
    return Query("jobs", _equal(queue=queue, state=JobState.QUEUED.value), (("position", "desc"),))


def due_permits(now: datetime) -> Query:
    """Queued jobs whose permit is to be published again, the longest overdue first."""
    where = (
        *_equal(state=JobState.QUEUED.value),
        Filter("permit_due_at", "<=", sortable(now)),
    )
    return Query("jobs", where, (("permit_due_at", "asc"),))


def next_due_permit() -> Query:
    """All queued jobs, the one whose permit is due first at the head."""
    return Query("jobs", _equal(state=JobState.QUEUED.value), (("permit_due_at", "asc"),))


def held_by(session: str) -> Query:
    """Jobs with an open attempt of that worker session."""
    return Query("jobs", _equal(session=session))


def to_stop(session: str) -> Query:
    """Those of them that were asked to stop."""
    return Query("jobs", _equal(session=session, stop_requested=True))


def waiting_for_build(build: str) -> Query:
    """Jobs whose image that build makes."""
    return Query("jobs", _equal(build=build))


def building() -> Query:
    """Jobs whose image is not there yet."""
    return Query("jobs", _equal(state=JobState.BUILDING.value))


def overflow_due(now: datetime) -> Query:
    """Queued jobs that waited long enough for their pool, the longest overdue first."""
    where = (*_equal(state=JobState.QUEUED.value), Filter("overflow_at", "<=", sortable(now)))
    return Query("jobs", where, (("overflow_at", "asc"),))


def next_overflow() -> Query:
    """Queued jobs that overflow one day, the next one at the head."""
    where = (*_equal(state=JobState.QUEUED.value), Filter("overflow_at", ">", ""))
    return Query("jobs", where, (("overflow_at", "asc"),))


def run_as(remote: str) -> Query:
    """Jobs with an open attempt that a platform runs by that name."""
    return Query("jobs", _equal(remote=remote))


def work_in_state(experiment: str, state: JobState) -> Query:
    """For counting: jobs that are no help to others."""
    return Query("jobs", _equal(experiment_id=experiment, state=state.value, auxiliary=False))


def helping() -> Query:
    """Jobs of auxiliary units that have not ended."""
    return Query("jobs", _equal(helps=True))


def builds() -> Query:
    """The newest first."""
    return Query("builds", order=(("created_at", "desc"),))


def open_builds() -> Query:
    """Those that have not ended."""
    return Query("builds", _equal(open=True))


def build_called(remote: str) -> Query:
    """The build that its builder calls by that name."""
    return Query("builds", _equal(remote=remote))


def open_sessions() -> Query:
    """The lease that runs out first at the head."""
    return Query("sessions", _equal(open=True), (("expires_at", "asc"),))


def expired_sessions(now: datetime) -> Query:
    """Open sessions whose lease is over."""
    where = (*_equal(open=True), Filter("expires_at", "<=", sortable(now)))
    return Query("sessions", where, (("expires_at", "asc"),))


def unsettled_sessions() -> Query:
    """Closed sessions that may still hold jobs."""
    return Query("sessions", _equal(open=False, settled=False))


def open_sessions_of(worker: str) -> Query:
    """More than one only while a new one replaces the old."""
    return Query("sessions", _equal(worker=worker, open=True))


def by_prefix(collection: str, prefix: str) -> Query:
    """Documents whose id begins with a prefix."""
    where = (Filter("id", ">=", prefix), Filter("id", "<", prefix + "~"))
    return Query(collection, where, (("id", "asc"),))


def projects() -> Query:
    """By name."""
    return Query("projects", order=(("name", "asc"),))


def members() -> Query:
    """By name."""
    return Query("members", order=(("name", "asc"),))


def tokens_of(project: str) -> Query:
    """The newest first."""
    return Query("tokens", _equal(project=project), (("created_at", "desc"),))


def secrets_of(project: str) -> Query:
    """By name."""
    return Query("secrets", _equal(project=project, removed=False))


def audit() -> Query:
    """The newest first."""
    return Query("audit", order=(("at", "desc"),))


def audit_of(project: str) -> Query:
    """What was changed in a project, the newest first."""
    return Query("audit", _equal(project=project), (("at", "desc"),))


def audit_by(who: str) -> Query:
    """What somebody changed, the newest first."""
    return Query("audit", _equal(who=who), (("at", "desc"),))


def audit_about(subject: str) -> Query:
    """What was changed of one thing, the newest first."""
    return Query("audit", _equal(subject=subject), (("at", "desc"),))


def active_in(project: str, state: JobState, person: str = "") -> Query:
    """For counting: jobs of a project, or of a person in it."""
    return Query("jobs", _of(project, person) + _equal(state=state.value))


def holding_gpus(project: str, person: str = "") -> Query:
    """Jobs of a project, or of a person in it, with an open attempt that has GPUs."""
    return Query("jobs", _of(project, person) + _equal(holds_gpus=True))


def usage_in(project: str, month: str) -> Query:
    """For sums: what a project used in a month."""
    return Query("usage", _equal(project=project, month=month), (("gpu_seconds", "asc"),))


def usage_by(project: str, month: str, person: str) -> Query:
    """For sums: what a person in a project used in a month."""
    where = _equal(project=project, month=month, person=person)
    return Query("usage", where, (("gpu_seconds", "asc"),))


def _of(project: str, person: str) -> tuple[Filter, ...]:
    return _equal(project=project, creator=person) if person else _equal(project=project)


def users_after(project: str, month: str, person: str) -> Query:
    """Who used something in a month, in order of name, from behind that one on."""
    where = (*_equal(project=project, month=month), Filter("person", ">", person))
    return Query("usage", where, (("person", "asc"),))


def creators_after(project: str, state: JobState, person: str) -> Query:
    """Jobs of a project in a state, in order of creator, from behind that one on."""
    where = (*_equal(project=project, state=state.value), Filter("creator", ">", person))
    return Query("jobs", where, (("creator", "asc"),))


def waiting_in(project: str) -> Query:
    """What waits of a project, in whatever queue, in order of position."""
    where = _equal(project=project, state=JobState.QUEUED.value)
    return Query("jobs", where, (("position", "asc"),))


def claimable_in(project: str, queue: str, pool: str) -> Query:
    """As `claimable`, of one project."""
    where = _equal(queue=queue, state=JobState.QUEUED.value, pool=pool, project=project)
    return Query("jobs", where, (("position", "asc"),))
