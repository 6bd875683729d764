"""Time, which passes as the test says, and what the control plane does when it has passed."""

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.base import Base
from tests.support.planes import LEASE
from xmcloud.core.control import sessions, sweep


class Passage(Base):
    @rule(seconds=st.sampled_from((1.0, 4.0, 6.0, 10.0, 20.0, 59.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.ledger.leases)
    @rule(data=st.data(), micros=st.sampled_from((-1, 0, 1)))
    def a_lease_is_about_to_end(self, data: st.DataObject, micros: int) -> None:
        """Just before, exactly at or just after the instant."""
        session = data.draw(st.sampled_from(sorted(self.ledger.leases)), "session")
        then = self.ledger.leases[session] + timedelta(microseconds=micros)
        self.clock.set(max(self.clock.now(), then))

    @rule()
    def sweep(self) -> None:
        self.run(self.swept())

    async def swept(self) -> None:
        now = self.clock.now()
        await sweep.sweep(self.plane)
        self.ledger.swept(now, self.jobs)

    @rule()
    def control_plane_restarts(self) -> None:
        self.run(sessions.regrant_leases(self.plane))
        now = self.clock.now()
        self.ledger.leases = dict.fromkeys(self.ledger.leases, now + LEASE)
