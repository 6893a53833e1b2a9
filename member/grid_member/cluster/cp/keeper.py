"""What goes on in the CP subsystem without a call; the oldest member does it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.cp.cluster import CpCluster
from grid_member.cluster.cp.plans import CpPlans
from grid_member.cluster.cp.sessions import CpSessions
from grid_member.cluster.cp.subsystem import LOCK, CpUnavailableError
from grid_member.cluster.membership.locks import LockedError
from grid_member.cluster.values.system_store import put_all
from grid_member.engine.api import ClusterState
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.cp.cluster import Groups
    from grid_member.cluster.cp.subsystem import CpChange
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.log.log import Clock

LOOK_S: Final = 2.0
"""How often it is looked whether there is anything to do."""
_log: Final = logging.getLogger("grid.member")


class CpKeeper:
    """Founds the subsystem and brings its groups back to what is kept."""

    def __init__(
        self,
        membership: Membership,
        plans: CpPlans,
        cp: CpCluster,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._membership = membership
        self._plans = plans
        self._cp = cp
        self._sleep = sleep
        self.missing_copies = 0
        """Copies of the groups' logs that were missing at the last look."""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._sleep(LOOK_S)
            try:
                await self._look()
            except (LockedError, CpUnavailableError) as error:
                event(_log, logging.INFO, "the CP subsystem is not changed now", reason=str(error))
            except Exception as error:
                failure(_log, "a look at the CP subsystem failed", error)

    async def _look(self) -> None:
        membership = self._membership
        if not membership.joined:
            return
        self.missing_copies = await self._cp.count_missing()
        oldest = membership.members()[0].uuid == membership.engine.member_uuid
        if not oldest or membership.engine.cluster_state is not ClusterState.ACTIVE:
            return  # in other states copies stay where they are
        if self._plans.founding_due:
            await self._attempt("founded", self._cp.establish)
        elif self._plans.replacement_due:
            await self._attempt("member replaced", self._cp.replace)
        elif await self._cp.stray_groups():
            await self._attempt("groups restored", self._cp.restore)

    async def _attempt(self, what: str, change: Callable[[], Awaitable[CpChange]]) -> None:
        membership = self._membership
        async with membership.locks.hold(LOCK, what):
            if await put_all(membership.engine, await change()) is None:
                event(_log, logging.INFO, "CP subsystem changed", change=what)


def cp_of_several(
    membership: Membership,
    groups: Callable[[], Groups],
    count: int,
    *,
    new_uuid: Callable[[], str],
    clock_s: Callable[[], float],
    clock_ms: Clock,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[CpCluster, CpKeeper]:
    """Return the subsystem of one of several members, and what goes on in it.

    Count is how many CP members there are to be at first; `groups` returns the groups of the
    servers once the member has joined.
    """
    plans = CpPlans(membership, count, new_uuid)
    sessions = CpSessions(membership, clock_s, clock_ms)
    cp = CpCluster(membership, plans, groups, sessions, clock_s, sleep)
    return cp, CpKeeper(membership, plans, cp, sleep)
