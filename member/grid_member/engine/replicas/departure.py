"""A member leaves for good: its copies go to others before it does.

    noted as leaving ─▶ its copies moved ─▶ no more copies than others can hold ─▶ taken off

Each step is done under the cluster's lock, by a look that is taken under it; what must not be done
now is waited for. A member that is started again meanwhile stays, until it is asked to leave again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.nats.admin.peers import (
    evacuate_server,
    peer_id,
    peers,
    remove_server,
    step_down,
)
from grid_member.engine.nats.admin.server_records import LEAVING, LEFT, REMOVED, SERVER
from grid_member.engine.nats.admin.streams import Copies, all_copies, change_copies
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replication import NO_MAJORITY, LockedOutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grid_member.engine.nats.admin.peers import Peers
    from grid_member.engine.replicas.servers import Servers

LOOK_S: Final = 0.5
LEAST: Final = 2
"""Members with data that have to remain: one alone has another kind of log."""
BEGUN_PERCENT: Final = 5
MOVED_PERCENT: Final = 95
MAX_TOLD_CHARACTERS: Final = 400
"""Of which streams are waited for; it is stored with the operation each time it changes."""
_UNSTEADY: Final = "the cluster state lets no copies be moved"


class Evacuation(NamedTuple):
    """How far a member is with leaving."""

    percent: int
    obstacle: str | None
    """None when nothing is in its way."""


class Departure:
    """Takes this member's own server off those that count."""

    def __init__(self, servers: Servers, steady: Callable[[], bool]) -> None:
        """Begin nothing; steady tells whether copies may be moved in the present state."""
        self._servers = servers
        self._own = peer_id(servers.own)
        self._steady = steady

    async def evacuate(self, report: Callable[[Evacuation], None]) -> None:
        """Move all copies elsewhere and leave; return when nothing is left of this member."""
        while True:
            try:
                step = await self.step()
            except LockedOutError:
                step = Evacuation(0, "another member changes the cluster")
            except NatsError as error:
                step = Evacuation(0, str(error))
            if step is None:
                return
            report(step)
            await asyncio.sleep(LOOK_S)

    async def step(self) -> Evacuation | None:
        """Do what is next; None when all is done."""
        servers = self._servers
        found = await peers(servers.system)
        if self._own not in found.ids:
            return None
        if not self._steady():
            return Evacuation(0, _UNSTEADY)
        if self._own not in servers.leaving():
            return await self._begin()
        return await self._move(found) or await self._end()

    async def _move(self, found: Peers) -> Evacuation | None:
        """Have copies moved, as far as that may be done now; None when none is here."""
        servers, copies = self._servers, await self._copies()
        if not self._here(copies) and not self._too_many(found, copies):
            return None
        problem = await self._hindrance(found, copies)
        if problem is not None:
            return Evacuation(self._percent(copies), problem)
        async with servers.lock_cluster("a member leaves"):
            # Others may have had copies moved, or died, until the lock was had.
            found, copies = await peers(servers.system), await self._copies()
            problem = await self._hindrance(found, copies)
            if problem is not None or self._own not in found.ids:
                return Evacuation(self._percent(copies), problem)
            # First of all: of fewer copies the servers give up any, also of a member that stays,
            # which they would have to make anew then.
            if self._here(copies):
                await evacuate_server(servers.system, self._own)
                return Evacuation(self._percent(copies), evacuation_of(copies, self._own))
            await self._make_fewer(self._too_many(found, copies), len(found.ids) - 1)
        return Evacuation(self._percent(copies), None)

    async def _hindrance(self, found: Peers, copies: Mapping[str, Copies]) -> str | None:
        """Return why no copies may be moved now."""
        if not self._steady():
            return _UNSTEADY
        if any(one.moving for one in copies.values()):
            return evacuation_of(copies, self._own)
        # Servers may have been lost since it was noted: what is left must not be moved as well.
        return await self._servers.obstacle(found, frozenset(), 0.0, copies)

    def _here(self, copies: Mapping[str, Copies]) -> int:
        return sum(self._own in one.servers for one in copies.values())

    def _too_many(self, found: Peers, copies: Mapping[str, Copies]) -> list[str]:
        remaining = len(found.ids) - 1
        return [one for one in self._servers.streams if copies[one].wanted > remaining]

    def _percent(self, copies: Mapping[str, Copies]) -> int:
        share = (len(copies) - self._here(copies)) / len(copies)
        return BEGUN_PERCENT + int(share * (MOVED_PERCENT - BEGUN_PERCENT))

    async def _copies(self) -> dict[str, Copies]:
        return await all_copies(self._servers.client, self._servers.streams)

    async def _make_fewer(self, streams: Sequence[str], wanted: int) -> None:
        """Ask for fewer copies of all these streams: no one is to wait for another's answer.

        Raises:
            NatsError: the first; it may have been done nevertheless.
        """
        client = self._servers.client
        asked = (change_copies(client, stream, wanted) for stream in streams)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _begin(self) -> Evacuation:
        servers = self._servers
        async with servers.lock_cluster("a member leaves"):
            found = await peers(servers.system)
            if (servers.leaving() & found.ids) - {self._own}:
                return Evacuation(0, "another member is leaving")
            problem = await self._problem(found, await self._copies())
            if problem is not None:
                return Evacuation(0, problem)
            await servers.store.put(LEAVING + servers.own, b"")
            # Early: it would have copies moved off itself, and another leader be found at the end.
            await step_down(servers.system, self._own, servers.leaving())
        return Evacuation(BEGUN_PERCENT, None)

    async def _problem(self, found: Peers, copies: Mapping[str, Copies]) -> str | None:
        if len(found.ids) - 1 < LEAST:
            return f"{LEAST} members with data have to remain"
        return await self._servers.obstacle(found, frozenset(), 0.0, copies)

    async def _last_problem(self, found: Peers) -> str | None:
        """Return why the server must not be removed; the lock is held, so nobody changes that."""
        if not self._steady():
            return _UNSTEADY
        copies = await self._copies()
        if any(self._own in one.servers or one.moving for one in copies.values()):
            return evacuation_of(copies, self._own)
        return await self._problem(found, copies)

    async def _end(self) -> Evacuation | None:
        servers = self._servers
        async with servers.lock_cluster("a member leaves"):
            found = await peers(servers.system)
            if self._own not in found.ids:
                return None
            problem = await self._last_problem(found)
            if problem is not None:
                return Evacuation(MOVED_PERCENT, problem)
            if await step_down(servers.system, self._own, servers.leaving()):
                return Evacuation(MOVED_PERCENT, "another server is to lead the servers first")
            # First of all: with what it had it must never come back.
            if await servers.store.put(REMOVED + self._own, LEFT):
                # The note may have waited for a majority, and for an election.
                problem = await self._last_problem(await peers(servers.system))
                if problem is not None:
                    return Evacuation(MOVED_PERCENT, problem)
                await remove_server(servers.system, self._own)
                await servers.store.put(SERVER + servers.own, None)
                await servers.store.put(LEAVING + servers.own, None)
                return None
        return Evacuation(MOVED_PERCENT, NO_MAJORITY)


def evacuation_of(copies: Mapping[str, Copies], own: str) -> str:
    """Return which copies a server still has and which are moved, with what those wait for."""
    here = sum(own in one.servers for one in copies.values())
    streams = [
        f"{name} ({one.doing})" if one.doing else name
        for name, one in sorted(copies.items())
        if own in one.servers or one.moving
    ]
    text = f"{here} of {len(copies)} copies are still here; moved are {', '.join(streams)}"
    return text if len(text) <= MAX_TOLD_CHARACTERS else f"{text[: MAX_TOLD_CHARACTERS - 1]}…"
