"""What a reporter says to the control plane: a worker's protocol, for one job."""

from xmcloud.core.models import Session
from xmcloud.core.topics import control_subscription
from xmcloud.core.worker_protocol import (
    Lease,
    OpenSession,
    Pull,
    Pulled,
    Settle,
    SubscriptionRef,
    Sync,
    SyncAnswer,
)
from xmcloud.xm_cloud.client import Client

_WAIT_SECONDS = 300.0


class RunClient(Client):
    """A client that can also be a worker. Raises as `Client` does."""

    def open_session(self, worker: str, request: OpenSession) -> Lease:
        return self._create(Lease, f"/v1/workers/{worker}/sessions", request, None)

    def sync(self, session: str, request: Sync) -> SyncAnswer:
        return self._send(SyncAnswer, "POST", f"/v1/sessions/{session}/sync", request)

    def close_session(self, session: str) -> None:
        self._answer(Session, "POST", f"/v1/sessions/{session}/close", body=b"{}")

    def wait_for_news(self, session: str) -> bool:
        """Whether something came that a sync would tell of; waits for it a while."""
        to = control_subscription(session)
        wanted = SubscriptionRef(topic=to.topic, audience=to.audience)
        pull = Pull(subscriptions=(wanted,), limit=100, wait_seconds=_WAIT_SECONDS)
        body = pull.model_dump_json().encode()
        pulled = self._answer(Pulled, "POST", "/v1/messages/pull", body=body, wait=_WAIT_SECONDS)
        if not pulled.deliveries:
            return False
        settle = Settle(deliveries=tuple(pulled.deliveries)).model_dump_json().encode()
        self._raise_problem(self._request("POST", "/v1/messages/settle", body=settle))
        return True
