"""What goes through the control plane and comes back."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from socket import gethostname

from xmcloud.cli.checks.check import Check
from xmcloud.cli.checks.line import Line, Place
from xmcloud.core.models import Session
from xmcloud.core.names import random_id
from xmcloud.core.topics import control_subscription
from xmcloud.core.version import VERSION
from xmcloud.core.worker_protocol import Lease, OpenSession, Pull, Pulled, SubscriptionRef

PREFIX = "doctor-"
"""What names of sessions begin with that never take a job."""

_WAIT_SECONDS = 1.5
_BLOB = b"This is what `xmcloud doctor` writes and reads.\n"


def queue_round_trip(place: Place, sessions: Sequence[Session]) -> Iterator[Check]:
    """An order to a session of its own, which never asks for a job, and is closed at once.

    It listens where a worker does already: to open a session makes subscriptions to the permits
    of its pool, which would stay and fill.
    """
    name = "Messages"
    if not sessions:
        yield Check.ok(name, "not tried: that takes a worker that is connected")
        return
    with Line(place) as line:
        seconds = _order_seconds(line, sessions[0])
    if seconds is None:
        detail = f"none came through the queue within {_WAIT_SECONDS:g} s"
        yield Check.failed(name, detail, "See the log of the control plane.")
    else:
        yield Check.ok(name, f"through the queue and back in {seconds * 1000:.0f} ms")


def _order_seconds(line: Line, beside: Session) -> float | None:
    """How long an order takes to a worker; None if it does not come."""
    worker = f"{PREFIX}{random_id()[:8]}"
    announced = OpenSession(
        pool=beside.pool, queues=beside.queues[:1], version=VERSION, host=gethostname()
    )
    session = line.post(Lease, f"/v1/workers/{worker}/sessions", announced).session
    try:
        started = time.monotonic()
        line.post(Session, f"/v1/workers/{worker}/drain")
        mine = control_subscription(session.id)
        listened = SubscriptionRef(topic=mine.topic, audience=mine.audience)
        pull = Pull(subscriptions=(listened,), wait_seconds=_WAIT_SECONDS)
        came = line.post(Pulled, "/v1/messages/pull", pull, _WAIT_SECONDS).deliveries
        return time.monotonic() - started if came else None
    finally:
        line.post(Session, f"/v1/sessions/{session.id}/close")


def blob_round_trip(place: Place) -> Iterator[Check]:
    """Always the same few bytes, so that nothing piles up."""
    name, path = "Files", f"/v1/blobs/{hashlib.sha256(_BLOB).hexdigest()}"
    started = time.monotonic()
    with Line(place) as line:
        line.put_bytes(path, _BLOB)
        read = line.get_bytes(path)
    if read == _BLOB:
        took = (time.monotonic() - started) * 1000
        yield Check.ok(name, f"written and read again in {took:.0f} ms")
    else:
        detail = "what was written is not what was read"
        yield Check.failed(name, detail, "See the log and the disk of the control plane.")
