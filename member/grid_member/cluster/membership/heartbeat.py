"""The heartbeat of this member, and the removal of members that send none any more."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.failure_detector import LEASE_S, RENEW_S, FailureDetector
from grid_member.cluster.membership.locks import removal_puts
from grid_member.cluster.membership.member_table import LEASE, MEMBER, Lease
from grid_member.cluster.values.system_store import Put, put_all
from grid_member.engine.api import ClusterState, Refused
from grid_member.engine.io.ending import end_tasks
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.membership.membership import Membership

CLOSED_STATES: Final = frozenset({ClusterState.FROZEN, ClusterState.PASSIVE})
"""Only members that left in them may join."""
OWN_LEASE_S: Final = LEASE_S - 1.0
"""For so long after a heartbeat that the log took a member hands out what it takes. The
others count `LEASE_S` from when they read the heartbeat."""
_log: Final = logging.getLogger("grid.member")


class Heartbeat:
    """Sends this member's heartbeats and takes silent members off the list."""

    def __init__(self, membership: Membership, clock_s: Callable[[], float]) -> None:
        self.incarnation = membership.new_id()
        """This member's present one."""
        self.failure_detector = FailureDetector(clock_s)
        self._membership = membership
        self._engine = membership.engine
        self._member_table = membership.member_table
        self._clock_s = clock_s
        self._beat_count = 0
        self._last_beat_s = clock_s() - RENEW_S
        self._beating = self._beat_pending = False
        self._lease_until_s = self._gap_s = -math.inf
        """The latter: when the log last took a heartbeat that came late, behind the end of a
        lease."""
        self._engine.lease(self._lease_until_s, ended=False)
        self._removals: dict[str, asyncio.Task[None]] = {}

    def begin_incarnation(self) -> None:
        """Begin another incarnation."""
        self.incarnation = self._membership.new_id()
        self.beat()

    @property
    def has_lease(self) -> bool:
        """Whether this incarnation has a lease."""
        return self._member_table.has_lease(self._engine.member_uuid, self.incarnation)

    def beat_when_due(self) -> None:
        """Send a heartbeat when one is due."""
        if self._clock_s() - self._last_beat_s >= RENEW_S:
            self.beat()

    def beat(self) -> None:
        """Send a heartbeat; one that is requested while another is under way follows it."""
        if self._beating:
            self._beat_pending = True
            return
        self._beating, self._beat_pending = True, False
        self._beat_count += 1
        self._last_beat_s = self._clock_s()
        passed, disk = self._membership.barriers.passed_barriers, self._membership.disk
        lease = Lease(self.incarnation, self._beat_count, passed, disk)
        lease.put(self._engine.member_uuid).begin(self._engine)(self._finish_beat)

    def _finish_beat(self, outcome: object) -> None:
        self._beating = False
        if isinstance(outcome, Refused):
            self._last_beat_s -= RENEW_S  # it is given again at the next look
        else:
            self.failure_detector.note_own_renewal()
            self._extend_lease()
        if self._beat_pending:
            self.beat()

    def _extend_lease(self) -> None:
        """Tell the engine of the lease that the last beat renewed, unless that has ended again."""
        own = self._engine.member_uuid
        lease = self._member_table.lease(own)
        if lease is not None and (lease.incarnation, lease.beat) == (
            self.incarnation,
            self._beat_count,
        ):
            # Who ends a lease takes its member off the list in the same record.
            off_the_list = self._engine.system_get(MEMBER + own) is None
            gap = -math.inf < self._lease_until_s <= self._clock_s()
            self._gap_s = self._clock_s() if gap else self._gap_s
            self._lease_until_s = self._last_beat_s + OWN_LEASE_S
            self._engine.lease(self._lease_until_s, ended=gap and off_the_list)

    def _drop_lease(self) -> None:
        """Hold no lease that ended right behind a gap.

        A member that reads a heartbeat and its end at once has not seen it, and ends the
        incarnation.
        """
        if self._clock_s() - self._gap_s < LEASE_S:
            self._lease_until_s = self._gap_s = -math.inf
            self._engine.lease(self._lease_until_s, ended=True)

    def look(self) -> None:
        """Send a heartbeat when the others ended the lease; begin to end that of silent members."""
        if self._beat_count and self._member_table.lease(self._engine.member_uuid) is None:
            self._drop_lease()
            self.beat()
        for uuid, lease in self.failure_detector.silent_members().items():
            if uuid != self._engine.member_uuid and uuid not in self._removals:
                removal = asyncio.get_running_loop().create_task(self._remove(uuid, lease))
                self._removals[uuid] = removal

    async def close(self) -> None:
        """End what goes on."""
        await end_tasks(*self._removals.values())

    async def _remove(self, uuid: str, lease: Lease) -> None:
        try:
            # Its heartbeat may be on the way.
            if not await self._engine.current() or self._member_table.lease(uuid) != lease:
                return
            # A member that has left sends no heartbeat any more; no member removes its own last
            # one.
            if any(member.uuid == uuid for member in self._member_table.members()):
                event(_log, logging.WARNING, "member is silent: taken off the list", member=uuid)
            await put_all(self._engine, self._removal_puts(uuid, lease.incarnation))
        finally:
            del self._removals[uuid]

    def _removal_puts(self, uuid: str, incarnation: str) -> list[Put]:
        puts = [Put(LEASE + uuid, None), *removal_puts(self._engine, uuid, incarnation)]
        for member in self._member_table.members():
            if member.uuid == uuid:
                puts.append(Put(MEMBER + uuid, None))
                if self._engine.cluster_state in CLOSED_STATES:
                    puts.append(member.put_left())
        return puts
