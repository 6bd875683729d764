"""Listens for the word that a running job is to stop."""

import asyncio
from typing import Never

from xmcloud.core.errors import NotFound, StorageFull, Unavailable
from xmcloud.core.ports import Consumer
from xmcloud.core.topics import control_subscription
from xmcloud.worker.sync import Conversation

_LONGEST_WAIT_SECONDS = 300.0
_PAUSE_SECONDS = 0.5
_MESSAGES_TOGETHER = 100


class Control:
    """Listens only while something runs; messages keep until then."""

    def __init__(self, consumer: Consumer, conversation: Conversation, session: str) -> None:
        self._consumer = consumer
        self._conversation = conversation
        self._subscription = control_subscription(session)

    async def run(self, busy: asyncio.Event) -> Never:
        while True:
            await busy.wait()
            try:
                messages = await self._consumer.pull(
                    [self._subscription], _MESSAGES_TOGETHER, _LONGEST_WAIT_SECONDS
                )
                if messages:
                    self._conversation.watch_stops()
                    await self._consumer.acknowledge(messages)
            except (Unavailable, StorageFull, NotFound):
                await asyncio.sleep(_PAUSE_SECONDS)
                # What was sent meanwhile is asked for with the first request that gets through.
                self._conversation.watch_stops()
