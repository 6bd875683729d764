"""Takes permits of targets and events from the queue where a process may stay up.

On Google Cloud, Pub/Sub calls the entry points `dispatch`, `build_event` and `platform_event`
instead.
"""

import asyncio
import logging
from collections.abc import Sequence

from xmcloud.core.control.builds import build_event
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.observing import platform_event
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import QUEUES_CHANGED, ordered_queues
from xmcloud.core.errors import XmcloudError
from xmcloud.core.ports import Delivery, Subscription
from xmcloud.core.topics import (
    BUILD_EVENTS,
    PLATFORM_EVENTS,
    event_subscriptions,
    permit_subscription,
)

AT_ONCE = 100
WAIT_SECONDS = 3600
RETRY_SECONDS = 10


async def run_dispatcher(plane: ControlPlane) -> None:
    """Until it is cancelled; returns at once for a control plane without targets and builder."""
    if not plane.targets and plane.builder is None:
        return
    async with plane.signals.listen(QUEUES_CHANGED) as changed:
        while True:
            changed.clear()
            try:
                subscriptions = await _subscribed(plane)
                await _until_changed(plane, subscriptions, changed)
            except XmcloudError as error:
                logging.getLogger(__name__).warning("Dispatching failed, tried again: %s", error)
                await plane.clock.sleep(RETRY_SECONDS)


async def _subscribed(plane: ControlPlane) -> list[Subscription]:
    """Events first, then the permits of every target, the preferred queue first."""
    subscriptions = event_subscriptions()
    for queue in await ordered_queues(plane):
        subscriptions += [permit_subscription(queue.name, name) for name in plane.targets]
    await plane.queue.subscribe(subscriptions)
    return subscriptions


async def _until_changed(
    plane: ControlPlane, subscriptions: Sequence[Subscription], changed: asyncio.Event
) -> None:
    changing = asyncio.create_task(changed.wait())
    try:
        while not changing.done():
            pulling = asyncio.create_task(plane.queue.pull(subscriptions, AT_ONCE, WAIT_SECONDS))
            try:
                await asyncio.wait({pulling, changing}, return_when=asyncio.FIRST_COMPLETED)
                deliveries = await pulling if pulling.done() else []
            finally:
                pulling.cancel()
            await _take(plane, deliveries)
    finally:
        changing.cancel()


async def _take(plane: ControlPlane, deliveries: Sequence[Delivery]) -> None:
    """Each subject once, however many messages tell of it."""
    subjects: dict[tuple[str, str], list[Delivery]] = {}
    for delivery in deliveries:
        topic, audience = delivery.subscription.topic, delivery.subscription.audience
        event = topic in (BUILD_EVENTS, PLATFORM_EVENTS)
        subject = (topic, delivery.message.body) if event else ("", audience)
        subjects.setdefault(subject, []).append(delivery)
    await asyncio.gather(*(_see_to(plane, *subject, told) for subject, told in subjects.items()))


async def _see_to(plane: ControlPlane, topic: str, what: str, told: Sequence[Delivery]) -> None:
    try:
        if topic == BUILD_EVENTS:
            await build_event(plane, what)
        elif topic == PLATFORM_EVENTS:
            await platform_event(plane, what)
        else:
            await dispatch(plane, what)
    except XmcloudError as error:
        logging.getLogger(__name__).warning("%s, to be tried again: %s", topic or what, error)
        await plane.queue.release(told, RETRY_SECONDS)
    else:
        await plane.queue.acknowledge(told)
