"""What stands between an adapter and an emulator, or where one should be."""

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc

NOBODY = "127.0.0.1:1"
"""Where nothing listens."""


class Proxy(grpc.GenericRpcHandler):
    """Passes calls on to an emulator, remembers them, and loses answers as told."""

    def __init__(self, target: str) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self.lost_answers: Counter[str] = Counter()
        self._channel = grpc.aio.insecure_channel(
            target, options=[("grpc.max_receive_message_length", -1)]
        )
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers([self])

    async def start(self) -> str:
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return f"127.0.0.1:{port}"

    async def stop(self) -> None:
        await self._server.stop(None)
        await self._channel.close()

    def sent(self, method: str) -> list[bytes]:
        return [request for name, request in self.requests if name == method]

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.stream_stream_rpc_method_handler(partial(self._forward, details.method))

    async def _forward(self, method: str, requests: Any, context: Any) -> AsyncIterator[bytes]:
        name = method.rpartition("/")[2]

        async def remembered() -> AsyncIterator[bytes]:
            async for request in requests:
                self.requests.append((name, request))
                yield request

        metadata = [(k, v) for k, v in context.invocation_metadata() if k == "authorization"]
        try:
            call: Any = self._channel.stream_stream(method)
            async for answer in call(remembered(), metadata=metadata):
                if self.lost_answers[name]:
                    self.lost_answers[name] -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
                yield answer
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())
