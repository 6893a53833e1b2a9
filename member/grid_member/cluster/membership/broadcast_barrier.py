"""Broadcast barriers: how a member knows that every other one shows what it changed.

    notice/<id>/<writer>  written behind the change
        ─▶ each member that meets it waits until all that was answered before is applied on it
        ─▶ and names the id in its lease

So when the last lease names it, the change is applied everywhere in the system shard, by whose
state and configuration members answer; in the other shards it is in the log, before what they do
next.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put, put_all

if TYPE_CHECKING:
    from grid_member.cluster.membership.membership import Membership

BARRIER: Final = "notice/"
SHUTDOWN: Final = "shutdown"
"""The request that all members stop, which is a barrier as well; its id is its value's."""
BARRIER_PATIENCE_S: Final = 60.0
"""How long a change waits for a member that lives but does not show it."""


class BroadcastBarriers:
    """The barriers as one member writes and passes them."""

    def __init__(self, membership: Membership) -> None:
        self.passed_barriers: frozenset[str] = frozenset()
        """The barriers that this member has passed."""
        self._engine = membership.engine
        self._member_table = membership.member_table
        self._conditions = membership.conditions
        self._heartbeat = membership.heartbeat
        self._own: set[str] = set()
        self._passing: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Begin to pass the barriers that are new, and forget those that are over."""
        present = self._open_barriers()
        if self.passed_barriers - present:
            self.passed_barriers &= present
        if present - self.passed_barriers and (self._passing is None or self._passing.done()):
            self._passing = asyncio.get_running_loop().create_task(self._pass_new())

    async def close(self) -> None:
        """End what goes on."""
        if self._passing is not None:
            self._passing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._passing

    async def wait(self, barrier: str) -> bool:
        """Write a barrier; return when all members show what was changed before.

        False when one that lives does not in time, or the log does not take the barrier.
        """
        put = Put(f"{BARRIER}{barrier}/{self._engine.member_uuid}", b"")
        self._own.add(put.key)
        try:
            if await put_all(self._engine, [put]) is not None:
                return False
            return await self._conditions.until(
                lambda: self.is_complete(barrier), BARRIER_PATIENCE_S
            )
        finally:
            self._own.discard(put.key)
            Put(put.key, None).send(self._engine)  # `tidy` sends again what the log refuses

    def tidy(self) -> None:
        """Remove what is left of barriers that this member does not wait for any more."""
        own = "/" + self._engine.member_uuid
        for key, _ in self._engine.system_items(BARRIER):
            if key.endswith(own) and key not in self._own:
                Put(key, None).send(self._engine)

    def is_complete(self, barrier: str) -> bool:
        """Tell whether every member on the list has passed the barrier; a silent one leaves it."""
        leases = self._member_table.leases()
        members = (leases.get(member.uuid) for member in self._member_table.members())
        return all(lease is None or barrier in lease.passed_barriers for lease in members)

    def _open_barriers(self) -> frozenset[str]:
        found = {key.split("/")[1] for key, _ in self._engine.system_items(BARRIER)}
        request = self._engine.system_get(SHUTDOWN)
        return frozenset(found if request is None else {*found, _barrier_id(request)})

    async def _pass_new(self) -> None:
        while new := self._open_barriers() - self.passed_barriers:
            if not await self._engine.current():
                return  # the next look begins again
            self.passed_barriers = (self.passed_barriers & self._open_barriers()) | new
            self._heartbeat.beat()  # the lease names them


def _barrier_id(request: bytes) -> str:
    return request.decode().partition(" ")[0]
