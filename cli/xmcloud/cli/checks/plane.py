"""Whether the control plane is known, answers, and has what jobs need."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from xmcloud.cli.checks.check import Check, Verdict
from xmcloud.cli.checks.line import Heard, Line, Place, known_place
from xmcloud.cli.checks.rights import caller, rights_checks
from xmcloud.cli.checks.round_trips import PREFIX, blob_round_trip, queue_round_trip
from xmcloud.cli.checks.running import Found, Look, Probe
from xmcloud.cli.checks.schema import schema_checks
from xmcloud.cli.checks.waiting import check_waiting
from xmcloud.core.errors import Unauthorized, XmcloudError
from xmcloud.core.identity import Permission, Principal
from xmcloud.core.models import Session
from xmcloud.core.protocol import Queues, QueueStatus, Sessions
from xmcloud.core.version import VERSION
from xmcloud.xm_cloud.credentials.credentials import Fixed

SECTION = "Control plane"
_CLOCK_WARNS_SECONDS = 2.0
_CLOCK_FAILS_SECONDS = 10.0
"""A third of a lease: a worker has to be heard once in it."""
_QUEUES = 5


def check_plane(environ: Mapping[str, str]) -> Iterator[Found]:
    """First what all else needs, then the rest at once."""
    try:
        place = known_place(environ)
    except XmcloudError as error:
        yield Check.refused("Address", error)
        return
    yield Check.ok("Address", f"{place.url}, known from {place.source}")
    if isinstance(token := place.credentials, Fixed) and not _can_be_sent(token.token):
        detail = f"has characters that no token has, in {place.token_source}"
        yield Check.failed("Token", detail, _token_remedy(place, environ))
        return
    with Line(place) as line:
        heard = line.health()
        yield Check.ok("Answer", f"in {heard.seconds * 1000:.0f} ms")
        yield version_check(heard.version, VERSION)
        yield clock_check(heard)
        try:
            me = caller(line)
        except Unauthorized as error:
            yield Check.failed("Token", error.detail, _token_remedy(place, environ))
            return
        yield Check.ok("Token", f"accepted, from {place.token_source}")
        yield from rights_checks(line, me, environ)
        if not me.may_anywhere(Permission.READ):
            return
        yield from schema_checks(line)
        queues = line.get(Queues, "/v1/queues").queues
    yield from queue_checks(queues)
    yield from _rest(place, me, heard, queues)


def _can_be_sent(token: str) -> bool:
    return token.isascii() and token.isprintable()


def _rest(
    place: Place, me: Principal, heard: Heard, queues: Sequence[QueueStatus]
) -> Iterator[Probe]:
    ahead = timedelta(seconds=heard.ahead_seconds or 0)
    yield _probe("Workers", lambda: _look_at_workers(place, me, ahead))
    for status in [each for each in queues if each.waiting and not each.queue.paused][:_QUEUES]:
        yield _probe(f"Queue {status.queue.name}", _waiting(place, status))
    if me.may_anywhere(Permission.WRITE):
        yield _probe("Files", lambda: blob_round_trip(place))


def _probe(name: str, look: Look) -> Probe:
    return Probe(SECTION, name, look, Verdict.FAILED)


def _waiting(place: Place, status: QueueStatus) -> Look:
    return lambda: check_waiting(place, status)


def version_check(theirs: str, ours: str) -> Check:
    if theirs == ours:
        return Check.ok("Version", f"{theirs}, as here")
    detail = f"{theirs} there, {ours} here"
    return Check.warning("Version", detail, f"pip install xmcloud=={theirs}")


def clock_check(heard: Heard) -> Check:
    name, ahead = "Clock", heard.ahead_seconds
    if ahead is None:
        return Check.ok(name, "the answer has no date to compare with")
    if abs(ahead) <= _CLOCK_WARNS_SECONDS:
        return Check.ok(name, f"within {_CLOCK_WARNS_SECONDS:g} s of the control plane's")
    way = "ahead of" if ahead > 0 else "behind"
    detail = f"of this machine is {abs(ahead):.0f} s {way} the control plane's"
    tell = Check.failed if abs(ahead) > _CLOCK_FAILS_SECONDS else Check.warning
    return tell(name, detail, "sudo timedatectl set-ntp true")


def _token_remedy(place: Place, environ: Mapping[str, str]) -> str:
    if place.source == "xmcloud login" or not isinstance(place.credentials, Fixed):
        return f"xmcloud login {place.url}"
    if not environ.get("XMCLOUD_TOKEN"):
        return f"Write the token of this control plane to {place.token_source}"
    if place.source != "XMCLOUD_URL":
        return "unset XMCLOUD_TOKEN"
    return "export XMCLOUD_TOKEN=...: that of this control plane"


def queue_checks(queues: Sequence[QueueStatus]) -> Iterator[Check]:
    if not queues:
        yield Check.failed("Queues", "there is none", "xmcloud queue create default")
        return
    yield Check.ok("Queues", ", ".join(each.queue.name for each in queues))
    for each in queues:
        if each.queue.paused:
            name = each.queue.name
            detail = f"is paused; {each.waiting or 'no'} job{'s' * (each.waiting != 1)} in it"
            yield Check.warning(f"Queue {name}", detail, f"xmcloud queue resume {name}")


def _look_at_workers(place: Place, me: Principal, ahead: timedelta) -> Iterator[Found]:
    with Line(place) as line:
        found = line.get(Sessions, "/v1/workers").sessions
    sessions = [each for each in found if not each.worker.startswith(PREFIX)]
    yield from worker_checks(sessions, datetime.now(UTC) - ahead)
    if me.may(Permission.WORK):
        yield _probe("Messages", lambda: queue_round_trip(place, sessions))


def worker_checks(sessions: Sequence[Session], now: datetime) -> Iterator[Check]:
    """`now` is the control plane's time."""
    if not sessions:
        yield Check.warning("Workers", "none is connected", "xmcloud worker start")
        return
    silent = [each for each in sessions if _silent(each, now)]
    told = ", ".join(sorted(each.worker for each in sessions if each not in silent))
    if told:
        yield Check.ok("Workers", told)
    for each in silent:
        seconds = (now - each.renewed_at).total_seconds()
        where = f" on {each.host}" if each.host else ""
        detail = f"was not heard for {seconds:.0f} s"
        remedy = f"See whether it runs{where}: xmcloud worker start"
        yield Check.warning(f"Worker {each.worker}", detail, remedy)


def _silent(session: Session, now: datetime) -> bool:
    """It speaks three times in a lease, and missed two of them."""
    lease = session.expires_at - session.renewed_at
    return now > session.renewed_at + lease * 2 / 3
