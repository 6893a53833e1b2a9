"""Notices: how a member knows that every other one shows what it changed.

    notice/<id>/<writer>  written behind the change
        ─▶ each member that meets it waits until all that was answered before is applied on it
        ─▶ and names the id in its lease

So when the last lease names it, the change is applied everywhere in the system lane, by whose state
and configuration members answer; in the other lanes it is in the log, before what they do next.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put, carry_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.membership.member_table import MemberTable
    from grid_member.cluster.membership.replicated import ReplicatedEngine
    from grid_member.cluster.values.conditions import Conditions

NOTICE: Final = "notice/"
SHUTDOWN: Final = "shutdown"
"""The request that all members stop, which is a notice as well; its id is its value's."""
SEEN_PATIENCE_S: Final = 60.0
"""How long a change waits for a member that lives but does not show it."""


class Notices:
    """The notices as one member meets and writes them."""

    def __init__(
        self,
        engine: ReplicatedEngine,
        member_table: MemberTable,
        conditions: Conditions,
        seen: Callable[[], None],
    ) -> None:
        """Take what tells how far the others are.

        Args:
            engine: keeps them.
            member_table: who is in the cluster, and what the leases name.
            conditions: looked at with every change.
            seen: called when `ids` has another value, for the lease to show it.
        """
        self.ids: frozenset[str] = frozenset()
        """The notices that this member goes by."""
        self._engine = engine
        self._member_table = member_table
        self._conditions = conditions
        self._seen = seen
        self._mine: set[str] = set()
        self._reading: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Begin to go by the notices that are new, and forget those that are over."""
        present = self._present()
        if self.ids - present:
            self.ids &= present
        if present - self.ids and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def close(self) -> None:
        """End what goes on."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def shown(self, notice: str) -> bool:
        """Write a notice; return when all members show what was changed before.

        False when one that lives does not in time, or the log does not take the notice.
        """
        put = Put(f"{NOTICE}{notice}/{self._engine.member_uuid}", b"")
        self._mine.add(put.key)
        try:
            if (await carry_out(put.begin(self._engine)))[0] is not None:
                return False
            return await self._conditions.until(lambda: self.seen_by_all(notice), SEEN_PATIENCE_S)
        finally:
            self._mine.discard(put.key)
            Put(put.key, None).begin(self._engine)(_ignore)

    def tidy(self) -> None:
        """Remove what is left of notices that this member does not wait for any more."""
        own = "/" + self._engine.member_uuid
        for key, _ in self._engine.system_items(NOTICE):
            if key.endswith(own) and key not in self._mine:
                Put(key, None).begin(self._engine)(_ignore)

    def seen_by_all(self, notice: str) -> bool:
        """Tell whether every member on the list goes by the notice; a silent one leaves it."""
        leases = self._member_table.leases()
        members = (leases.get(member.uuid) for member in self._member_table.members())
        return all(lease is None or notice in lease.seen for lease in members)

    def _present(self) -> frozenset[str]:
        found = {key.split("/")[1] for key, _ in self._engine.system_items(NOTICE)}
        request = self._engine.system_get(SHUTDOWN)
        return frozenset(found if request is None else {*found, _id_of(request)})

    async def _read(self) -> None:
        while new := self._present() - self.ids:
            if not await self._engine.current():
                return  # the next look begins again
            self.ids = (self.ids & self._present()) | new
            self._seen()


def _id_of(request: bytes) -> str:
    return request.decode().partition(" ")[0]


def _ignore(outcome: object) -> None:
    """What was not removed now is removed by `tidy`."""
