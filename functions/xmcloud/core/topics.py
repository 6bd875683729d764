"""Which messages go where: permits by queue and pool, words of control by worker session."""

from collections.abc import Sequence

from xmcloud.core.ports import Subscription

CONTROL_TOPIC = "control"
NEWS = "news"
"""The body of the only word: ask which attempts are to be stopped, and which are there to start."""


def queue_topic(queue: str) -> str:
    """The topic of a queue's permits."""
    return f"queue-{queue}"


def permit_subscription(queue: str, pool: str) -> Subscription:
    """The pool's copy of every permit of a queue."""
    return Subscription(queue_topic(queue), pool)


def control_audience(session: str) -> str:
    return f"session-{session}"


def control_subscription(session: str) -> Subscription:
    """A session's own, so that no pull of an earlier one can take its messages."""
    return Subscription(CONTROL_TOPIC, control_audience(session))


def subscriptions(session: str, pool: str, queues: Sequence[str]) -> list[Subscription]:
    """All that a worker session listens to."""
    permits = [permit_subscription(queue, pool) for queue in queues]
    return [*permits, control_subscription(session)]


BUILD_EVENTS = "cloud-builds"
"""Where Cloud Build tells of every change of a build; the name is Google's."""

PLATFORM_EVENTS = "platform-events"
"""Where platforms tell of changes of their jobs."""

CONTROL_PLANE = "control-plane"
"""The audience of events: the messages themselves name none."""


def event_subscriptions() -> list[Subscription]:
    """What tells the control plane of builds and of jobs on platforms."""
    return [Subscription(topic, CONTROL_PLANE) for topic in (BUILD_EVENTS, PLATFORM_EVENTS)]
