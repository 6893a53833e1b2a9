"""The signs of life: this member's own, and the end of those that give none any more."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.locks import removed_with
from grid_member.cluster.membership.pulse import LEASE_S, RENEW_S, Pulse
from grid_member.cluster.membership.roll import LEASE, MEMBER, Lease
from grid_member.cluster.values.system_store import Put, carry_out
from grid_member.engine.api import ClusterState, Refused
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.membership.replicated import ReplicatedEngine
    from grid_member.cluster.membership.roll import Disk, Roll

CLOSED_STATES: Final = frozenset({ClusterState.FROZEN, ClusterState.PASSIVE})
"""Only members that left in them may join."""
SURE_S: Final = LEASE_S - 1.0
"""For so long after it gave a sign of life that was taken a member hands out what it takes. The
others count `LEASE_S` from when they hear of the sign."""
_log: Final = logging.getLogger("grid.member")


class Signs:
    """Gives this member's signs of life and takes silent members off the list."""

    def __init__(
        self,
        engine: ReplicatedEngine,
        roll: Roll,
        clock_s: Callable[[], float],
        new_life: Callable[[], str],
        told: Callable[[], tuple[frozenset[str], Disk]],
    ) -> None:
        """Give none yet.

        Args:
            engine: keeps the leases.
            roll: reads them.
            clock_s: seconds that only go forward.
            new_life: names a life.
            told: returns the notices that this member goes by, and how its disk is.
        """
        self.life = new_life()
        """This member's present one."""
        self.pulse = Pulse(clock_s)
        self._engine = engine
        self._roll = roll
        self._clock_s = clock_s
        self._new_life = new_life
        self._told = told
        self._beats = 0
        self._beaten_s = clock_s() - RENEW_S
        self._beating = self._beat_again = False
        self._sure_until_s = self._gap_s = -math.inf
        """The latter: when a sign was taken last that came late, behind the end of a lease."""
        engine.lease(self._sure_until_s, ended=False)
        self._burials: dict[str, asyncio.Task[None]] = {}

    def live_again(self) -> None:
        """Begin another life."""
        self.life = self._new_life()
        self.beat()

    @property
    def leased(self) -> bool:
        """Whether this life has a lease."""
        lease = self._roll.lease(self._engine.member_uuid)
        return lease is not None and lease.life == self.life

    def beat_in_time(self) -> None:
        """Give a sign when it is time for one."""
        if self._clock_s() - self._beaten_s >= RENEW_S:
            self.beat()

    def beat(self) -> None:
        """Give a sign of life; what is to be told while one is under way follows it."""
        if self._beating:
            self._beat_again = True
            return
        self._beating, self._beat_again = True, False
        self._beats += 1
        self._beaten_s = self._clock_s()
        lease = Lease(self.life, self._beats, *self._told())
        lease.put(self._engine.member_uuid).begin(self._engine)(self._beaten)

    def _beaten(self, outcome: object) -> None:
        self._beating = False
        if isinstance(outcome, Refused):
            self._beaten_s -= RENEW_S  # it is given again at the next look
        else:
            self.pulse.renewed()
            self._sure()
        if self._beat_again:
            self.beat()

    def _sure(self) -> None:
        """Tell the engine of the lease that the last sign renewed, unless that has ended again."""
        own = self._engine.member_uuid
        lease = self._roll.lease(own)
        if lease is not None and (lease.life, lease.beat) == (self.life, self._beats):
            # Who ends a lease takes its member off the list in the same record.
            off_the_list = self._engine.system_get(MEMBER + own) is None
            gap = -math.inf < self._sure_until_s <= self._clock_s()
            self._gap_s = self._clock_s() if gap else self._gap_s
            self._sure_until_s = self._beaten_s + SURE_S
            self._engine.lease(self._sure_until_s, ended=gap and off_the_list)

    def _hold_no_more(self) -> None:
        """Hold no lease that ended right behind a gap.

        Who hears of its sign and of its end at once has not heard the sign, and ends the life.
        """
        if self._clock_s() - self._gap_s < LEASE_S:
            self._sure_until_s = self._gap_s = -math.inf
            self._engine.lease(self._sure_until_s, ended=True)

    def look(self) -> None:
        """Give a sign when the others ended the lease; begin to end that of silent members."""
        if self._beats and self._roll.lease(self._engine.member_uuid) is None:
            self._hold_no_more()
            self.beat()
        for uuid, lease in self.pulse.silent().items():
            if uuid != self._engine.member_uuid and uuid not in self._burials:
                burial = asyncio.get_running_loop().create_task(self._buried(uuid, lease))
                self._burials[uuid] = burial

    async def close(self) -> None:
        """End what goes on."""
        burials = list(self._burials.values())
        for burial in burials:
            burial.cancel()
        await asyncio.gather(*burials, return_exceptions=True)

    async def _buried(self, uuid: str, lease: Lease) -> None:
        try:
            # Its sign may be on the way.
            if not await self._engine.current() or self._roll.lease(uuid) != lease:
                return
            # Who has left gives no sign any more, once it has stopped; nobody removes its own last.
            if any(member.uuid == uuid for member in self._roll.members()):
                event(_log, logging.WARNING, "member is silent: taken off the list", member=uuid)
            await carry_out(*(put.begin(self._engine) for put in self._removed(uuid, lease.life)))
        finally:
            del self._burials[uuid]

    def _removed(self, uuid: str, life: str) -> list[Put]:
        puts = [Put(LEASE + uuid, None), *removed_with(self._engine, uuid, life)]
        for member in self._roll.members():
            if member.uuid == uuid:
                puts.append(Put(MEMBER + uuid, None))
                if self._engine.cluster_state in CLOSED_STATES:
                    puts.append(member.put_left())
        return puts
