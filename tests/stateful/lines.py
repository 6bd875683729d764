"""The queues: their order, as people arrange it, and whether they are paused."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.draws import QUEUES
from tests.stateful.people import People
from xmcloud.core.control import queues
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job
from xmcloud.core.protocol import Move


class Lines(People):
    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), to=st.sampled_from(("front", "back", "up", "down")))
    def move(self, data: st.DataObject, to: Any) -> None:
        job = self.some_job(data, "move")
        waits = self.waiting(job.queue)
        expected = self.order_after(job, to, [each.id for each in waits])
        ties = len({each.position for each in waits}) < len(waits)
        moving = queues.move_job(self.plane, job.id, Move(to=to))
        if not self.act("move", job, moving) or (ties and to in ("up", "down")):
            return
        self.jobs = self.run(self.all_jobs())
        assert [each.id for each in self.waiting(job.queue)] == expected

    def order_after(self, job: Job, to: str, before: list[str]) -> list[str]:
        if job.id not in before:
            return before
        at = before.index(job.id)
        others = [id for id in before if id != job.id]
        places = {"front": 0, "back": len(others), "up": max(at - 1, 0), "down": at + 1}
        return [*others[: places[to]], job.id, *others[places[to] :]]

    @precondition(lambda self: self.jobs)
    @rule(
        data=st.data(), to=st.sampled_from(("front", "back", "up")), queue=st.sampled_from(QUEUES)
    )
    def move_to_queue(self, data: st.DataObject, to: Any, queue: str) -> None:
        job = self.some_job(data, "move")
        moving = queues.move_job(self.plane, job.id, Move(to=to, queue=queue))
        if to == "up" and queue != job.queue:
            with pytest.raises(InvalidInput):
                self.run(moving)
        else:
            self.act("move", job, moving)

    @rule(queue=st.sampled_from(QUEUES), paused=st.sampled_from((False, False, True)))
    def pause_or_resume(self, queue: str, paused: bool) -> None:
        if paused:
            self.run(queues.pause_queue(self.plane, queue))
            self.ledger.paused.add(queue)
        elif not (self.broker and self.broker.down):
            self.run(queues.resume_queue(self.plane, queue))
            self.ledger.paused.discard(queue)

    @rule()
    def queues_are_as_they_were_left(self) -> None:
        for found in self.run(queues.list_queues(self.plane)).queues:
            assert found.waiting == len(self.waiting(found.queue.name))
            assert found.queue.paused == (found.queue.name in self.ledger.paused)
