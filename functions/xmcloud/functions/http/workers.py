"""/v1/workers, /v1/sessions and /v1/messages: what workers speak."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from xmcloud.core.control import sessions, sync
from xmcloud.core.identity import Permission
from xmcloud.core.models import Session, Wanted
from xmcloud.core.ports import Delivery, Message, Subscription
from xmcloud.core.protocol import Sessions, WorkerStatus
from xmcloud.core.worker_protocol import (
    DeliveryRef,
    Lease,
    OpenSession,
    Pull,
    Pulled,
    Settle,
    SubscriptionRef,
    Sync,
    SyncAnswer,
)
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Name,
    Plane,
    SessionId,
    WorkerPlane,
    allowed,
    allowed_anywhere,
    answer,
)

router = APIRouter(tags=["workers"])


@router.get(
    "/workers",
    response_model=Sessions,
    dependencies=[allowed_anywhere(Permission.READ, Permission.WORK)],
)
async def list_workers(plane: Plane) -> Response:
    """Open sessions."""
    return answer(await sessions.list_sessions(plane))


@router.get(
    "/workers/{name}", response_model=WorkerStatus, dependencies=[allowed_anywhere(Permission.READ)]
)
async def get_worker(plane: Plane, name: Name) -> Response:
    """A connected worker, what it runs that the caller may see, and what its machine used."""
    return answer(await sessions.worker_status(plane, name))


@router.post(
    "/workers/{name}/drain", response_model=Session, dependencies=[allowed(Permission.OPERATE)]
)
async def drain_worker(plane: Plane, name: Name) -> Response:
    """It finishes what runs and takes no more, until it is resumed."""
    return answer(await sessions.order_worker(plane, name, Wanted.DRAIN))


@router.post(
    "/workers/{name}/resume", response_model=Session, dependencies=[allowed(Permission.OPERATE)]
)
async def resume_worker(plane: Plane, name: Name) -> Response:
    """It takes jobs again."""
    return answer(await sessions.order_worker(plane, name, Wanted.RUN))


@router.post(
    "/workers/{name}/stop", response_model=Session, dependencies=[allowed(Permission.OPERATE)]
)
async def stop_worker(plane: Plane, name: Name) -> Response:
    """It stops its jobs gracefully, so that they run again elsewhere, and ends."""
    return answer(await sessions.order_worker(plane, name, Wanted.STOP))


@router.post("/workers/{name}/sessions", status_code=201, response_model=Lease)
async def open_session(
    plane: WorkerPlane, name: Name, body: Annotated[OpenSession, examples.OPEN_SESSION]
) -> Response:
    """A worker starts. Of the attempts of its earlier session, those that it holds go on."""
    return answer(await sessions.open_session(plane, name, body), 201)


@router.post("/sessions/{id}/sync", response_model=SyncAnswer)
async def sync_session(
    plane: WorkerPlane, id: SessionId, body: Annotated[Sync, examples.SYNC]
) -> Response:
    """Reports, heartbeat and claim in one. 409 when the lease is over: nothing was taken then.

    A report that names a stale fence is refused by itself, with a problem of status 409 in its
    result, and changes nothing.
    """
    return answer(await sync.sync(plane, id, body))


@router.post("/sessions/{id}/close", response_model=Session)
async def close_session(plane: WorkerPlane, id: SessionId) -> Response:
    """The worker leaves; what it still holds runs again elsewhere."""
    return answer(await sessions.close_session(plane, id))


@router.post("/messages/pull", response_model=Pulled)
async def pull_messages(
    plane: WorkerPlane, request: Request, body: Annotated[Pull, examples.PULL]
) -> Response:
    """Permits and control messages, for workers that do not reach the queue themselves."""
    wanted = [Subscription(ref.topic, ref.audience) for ref in body.subscriptions]
    pulling = asyncio.create_task(plane.queue.pull(wanted, body.limit, body.wait_seconds))
    deliveries = await _unless_gone(request, pulling)
    return answer(Pulled(deliveries=[_reference(delivery) for delivery in deliveries]))


@router.post("/messages/settle", status_code=204)
async def settle_messages(plane: WorkerPlane, body: Annotated[Settle, examples.SETTLE]) -> Response:
    """Acknowledges messages, or gives them back for a while."""
    deliveries = [_delivery(reference) for reference in body.deliveries]
    if body.delay_seconds is None:
        await plane.queue.acknowledge(deliveries)
    else:
        await plane.queue.release(deliveries, body.delay_seconds)
    return Response(status_code=204)


async def _unless_gone(
    request: Request, pulling: asyncio.Task[list[Delivery]]
) -> Sequence[Delivery]:
    """Nothing once the client hung up: what comes later is for those that are there."""
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({pulling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await pulling if pulling.done() else ()
    finally:
        pulling.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _reference(delivery: Delivery) -> DeliveryRef:
    subscription = delivery.subscription
    return DeliveryRef(
        subscription=SubscriptionRef(topic=subscription.topic, audience=subscription.audience),
        audience=delivery.message.audience,
        body=delivery.message.body,
        receipt=delivery.receipt,
    )


def _delivery(reference: DeliveryRef) -> Delivery:
    subscription = Subscription(reference.subscription.topic, reference.subscription.audience)
    return Delivery(subscription, Message(reference.audience, reference.body), reference.receipt)
