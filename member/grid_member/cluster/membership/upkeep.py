"""What is looked after again and again while a member is one of several.

Items that a member took return to their queues when it is gone. A member that takes items has sent
a heartbeat before; so an incarnation that was seen to hold some, and has no lease behind a barrier
that follows, has lost it. It is ended as it was seen: what the member does in a later one stays.

Every shard has the cluster's state. One that missed a change of it, since nobody confirmed that, is
told again.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.cluster.membership.locks import CHANGE, LockedError
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.replication import Taker

LOOK_S: Final = 10.0
"""How often it is looked; what is to be mended has been seen twice, unless a lease just ended."""
AGAIN_S: Final = 1.0
"""The same after a look that found an incarnation that is over, or could not tell."""
UPKEEP: Final = "upkeep"
"""The purpose of the lock under which no other state comes between."""
_log: Final = logging.getLogger("grid.member")


class Upkeep:
    """Looks after incarnations and shards."""

    def __init__(self, membership: Membership) -> None:
        """Look at nothing yet."""
        self._membership = membership
        self._suspects: set[Taker] = set()
        self._gone_members: set[str] = set()
        """Members whose leases ended since the last look."""
        self._woken = self._differed = False

    def note_gone(self, uuid: str) -> None:
        """Hear that a member's lease has ended."""
        self._gone_members.add(uuid)
        self._woken = True

    async def run(self) -> None:
        """Look again and again, for as long as anything is waited for."""
        conditions = self._membership.conditions
        while not conditions.ended:
            self._woken = False
            done = False
            try:
                done = await self.look()
            except Exception as error:
                failure(_log, "a look at the members' incarnations failed", error)
            await conditions.until(lambda: self._woken, LOOK_S if done else AGAIN_S)

    async def look(self) -> bool:
        """End incarnations without a lease; let shards agree.

        Returns:
            Whether there was nothing to do that the log may not have taken.
        """
        engine, gone = self._membership.engine, set(self._gone_members)
        held = engine.takers()
        if held and not await engine.current():
            return False
        leases = self._membership.member_table.leases()
        quiet_s = self._membership.heartbeat.failure_detector.silence_s
        over = {
            taker
            for taker in held
            # A member with a late heartbeat may be handing out what it took.
            if taker.member not in leases and quiet_s(taker.member) >= LEASE_S
        }
        for taker in over:
            if taker in self._suspects or taker.member in gone:
                event(_log, logging.INFO, "items of a member return", member=taker.member)
                engine.end_incarnation(taker)
        self._suspects = over
        self._gone_members -= gone
        await self._agree()
        return not over

    async def _agree(self) -> None:
        """Tell shards the cluster's state that are not in it, and were not at the last look."""
        membership = self._membership
        engine = membership.engine
        differed, self._differed = self._differed, not engine.agreed
        # A lock that others wait for is not taken for what cannot be done.
        if differed and self._differed and engine.replication().in_contact:
            with contextlib.suppress(LockedError):
                async with membership.locks.hold(CHANGE, UPKEEP):
                    event(_log, logging.WARNING, "the cluster state is told to every shard again")
                    await membership.agree_on_state()
