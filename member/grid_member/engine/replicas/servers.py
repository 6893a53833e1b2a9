"""The servers that count: this member's is noted, and those that never come back are taken off.

a silent server that no member with a lease names
─▶ its place has another one, it left, or nobody ever noted it and minutes have passed
─▶ under the cluster's lock, when all others are heard of and their copies are current
─▶ removed, one at a time; with its old data it is refused from then on
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.nats.admin.peers import Peers, peer_id, peers, remove_server
from grid_member.engine.nats.admin.server_records import (
    LEAVING,
    LEFT,
    REMOVED,
    REPLACED,
    SERVER,
    decode_server_record,
    own_record,
)
from grid_member.engine.nats.admin.streams import Copies, copies_of
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replication import Colleagues, LockedOutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractAsyncContextManager

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.admin.server_records import ServerRecord
    from grid_member.engine.nats.client.client import NatsClient

LOOK_S: Final = 1.0
FORMER_S: Final = 3.0
"""How long a server is silent whose place has another one now, until it is removed."""
UNKNOWN_S: Final = 120.0
"""The same of a server that nobody noted: its member never got so far."""
LEADERLESS_S: Final = 20.0
"""A stream that has no leader for so long may have none because of the server to be removed. It is
removed for one in memory only: of one on disk the copy that is left may lack what was answered."""
_log: Final = logging.getLogger("grid.engine.nats")


class NoteStore(NamedTuple):
    """The system store as the servers' notes need it."""

    items: Callable[[str], list[tuple[str, bytes]]]
    put: Callable[[str, bytes | None], Awaitable[bool]]
    """Stores or removes a value; False when nobody knows whether it was done."""


class Servers:
    """The servers of all members, as this one keeps them in order."""

    def __init__(
        self,
        client: NatsClient,
        system: NatsClient,
        settings: ClusterSettings,
        server_name: str,
        streams: Sequence[str],
        store: NoteStore,
        colleagues: Callable[[], Colleagues | None],
        on_lost: AbstractSet[str] = frozenset(),
        kept_servers: AbstractSet[str] = frozenset(),
    ) -> None:
        """Look at nothing yet."""
        self.own = server_name
        self.streams = streams
        self.store = store
        self.client = client
        self.system = system
        self.colleagues = colleagues
        """Returns who knows the other members; without them nothing is removed."""
        self._on_lost = on_lost
        """Servers that a rescue took off, and perhaps more of them later."""
        self._kept_servers = kept_servers
        """The streams that are on disks."""
        self._settings = settings
        self._silent_since_s: dict[str, float] = {}
        self._leaderless_since_s: dict[str, float] = {}
        self._last_report = ""

    async def note_own(self) -> bool:
        """Note which server this member has, and that it stays; tell whether that is known."""
        if self._settings.lite:
            return True
        place = await asyncio.to_thread(own_record, self._settings)
        return await self.store.put(SERVER + self.own, place.encode()) and await self.store.put(
            LEAVING + self.own, None
        )

    async def note_lost(self) -> bool:
        """Note which servers were taken off: with their old data they must never come back."""
        known = {key for key, _ in self.store.items(REMOVED)}
        for peer in sorted(self._on_lost):
            if REMOVED + peer not in known and not await self.store.put(REMOVED + peer, REPLACED):
                return False
        return True

    async def run(self) -> None:
        """Keep the servers in order for as long as the member lives."""
        while True:
            try:
                await self.look()
            except LockedOutError:
                self._leaderless_since_s.clear()  # another member is at it
            except NatsError:
                self.forget()
            except Exception as error:
                self.say(f"the servers cannot be looked at: {error!r}")
            await asyncio.sleep(LOOK_S)

    def forget(self) -> None:
        """Count silence anew: whoever leads next knows nothing of it."""
        self._silent_since_s.clear()
        self._leaderless_since_s.clear()

    def leaving(self) -> frozenset[str]:
        """Return the ids of the servers that leave for good."""
        items = self.store.items(LEAVING)
        return frozenset(peer_id(key.removeprefix(LEAVING)) for key, _ in items)

    def present_servers(self) -> frozenset[str]:
        """Return the ids of the servers of the members that send heartbeats."""
        colleagues = self.colleagues()
        names = colleagues.servers() if colleagues is not None else ()
        return frozenset(map(peer_id, names))

    def say(self, what: str) -> None:
        """Log what is waited for, when it is something else."""
        if what != self._last_report:
            self._last_report = what
            _log.info("%s", what)

    def lock_cluster(self, purpose: str) -> AbstractAsyncContextManager[None]:
        """Let no other member change the cluster meanwhile.

        Raises:
            LockedOutError: another one does, or nobody can tell.
        """
        colleagues = self.colleagues()
        if colleagues is None:
            raise LockedOutError
        return colleagues.lock_cluster(purpose)

    def describe(self, servers: AbstractSet[str]) -> str:
        """Return whose servers these are, by their ids, as far as that was noted."""
        places = self._places()
        found = {peer: places.get(peer) for peer in servers}
        return ", ".join(sorted({one.member if one else peer for peer, one in found.items()}))

    def members(self, servers: AbstractSet[str]) -> int:
        """Count the members that have these servers, given by their ids.

        Those that cannot run at the same time are one member's, which came back with another one.
        """
        places = self._places()
        found: list[ServerRecord] = []
        unknown = 0
        for place in map(places.get, servers):
            if place is None:
                unknown += 1
            elif not any(place.excludes(other) for other in found):
                found.append(place)
        return len(found) + unknown

    async def obstacle(
        self,
        found: Peers,
        gone: AbstractSet[str],
        silent_s: float,
        looks: Mapping[str, Copies] | None = None,
    ) -> str | None:
        """Return why no server may be removed now, None when one may.

        Args:
            found: the servers that vote.
            gone: those of them that never come back.
            silent_s: how long the one to be removed is silent already.
            looks: the copies of all streams when they were looked at just now.
        """
        if found.silent - gone:
            return "a member is silent: the members may have lost sight of each other"
        for stream in self.streams:
            try:
                copies = looks[stream] if looks else await copies_of(self.client, stream)
            except NatsError as error:
                leaderless_s = min(silent_s, self._leaderless_s(stream))
                if stream in self._kept_servers or leaderless_s < LEADERLESS_S:
                    return str(error)
                continue
            self._leaderless_since_s.pop(stream, None)
            if _behind(copies, gone):
                return f"a copy of {stream} is not current yet"
        return None

    async def look(self) -> None:
        """See which servers are silent, and take one off if it never comes back."""
        if self.colleagues() is None:
            return
        found, named = await peers(self.system), self.present_servers()
        now_s = asyncio.get_running_loop().time()
        self._silent_since_s = {
            peer: self._silent_since_s.get(peer, now_s) for peer in found.silent - named
        }
        await self._tidy(found, named)
        due = self._due(found, named, now_s)
        if not due:
            self._leaderless_since_s.clear()
        else:
            async with self.lock_cluster("removes a server"):
                await self._remove(due[0], now_s - self._silent_since_s[due[0]])

    async def _tidy(self, found: Peers, named: AbstractSet[str]) -> None:
        """Make good what was left undone: a note that is lost, one of a server that was removed."""
        notes = {key.removeprefix(SERVER) for key, _ in self.store.items(SERVER)}
        # One that left is not noted again: nobody would ever remove that note.
        if self.own not in notes and peer_id(self.own) in found.ids - self.leaving():
            await self.note_own()
        if not self._on_lost & found.ids:
            await self.note_lost()
        for key, _ in self.store.items(REMOVED):
            peer = key.removeprefix(REMOVED)
            if peer in named and peer in found.ids - found.silent - self.leaving():
                await self.store.put(key, None)  # it was not gone after all

    def _due(self, found: Peers, named: AbstractSet[str], now_s: float) -> list[str]:
        """Return the servers that are to be removed."""
        places, left = self._places(), self.departed()
        here = [places.get(one) for one in (found.ids & named) - found.silent]
        living = [place for place in here if place is not None]
        due: list[str] = []
        for peer, since_s in sorted(self._silent_since_s.items()):
            place = places.get(peer)
            if peer in left:
                patience_s = FORMER_S  # it ended before it was off; it refuses to start again
            elif peer not in places:
                patience_s = UNKNOWN_S
            elif place is not None and any(place.excludes(other) for other in living):
                patience_s = FORMER_S
            else:
                continue  # it may come back
            if now_s - since_s >= patience_s:
                due.append(peer)
        return due

    def departed(self) -> set[str]:
        """Return the ids of those that left for good."""
        items = self.store.items(REMOVED)
        return {key.removeprefix(REMOVED) for key, value in items if value == LEFT}

    def _places(self) -> dict[str, ServerRecord | None]:
        """Return where servers are that are noted; None is a note of another version."""
        items = self.store.items(SERVER)
        return {
            peer_id(key.removeprefix(SERVER)): decode_server_record(value) for key, value in items
        }

    def _leaderless_s(self, stream: str) -> float:
        """Return for how long nobody leads the stream: each may have none while one is elected."""
        now_s = asyncio.get_running_loop().time()
        return now_s - self._leaderless_since_s.setdefault(stream, now_s)

    async def _may_go(self, peer: str, silent_s: float) -> bool:
        """Tell whether a server is still silent, and nothing is in the way of its removal."""
        found, named = await peers(self.system), self.present_servers()
        if peer not in found.silent - named:
            return False
        gone = {peer, *self._due(found, named, asyncio.get_running_loop().time())}
        obstacle = await self.obstacle(found, gone, silent_s)
        if obstacle is not None:
            self.say(f"the former server {peer} is still there: {obstacle}")
        return obstacle is None

    async def _remove(self, peer: str, silent_s: float) -> None:
        """Remove a server that is still silent; the lock is held."""
        if not await self._may_go(peer, silent_s):
            return
        place = self._places().get(peer)
        # First of all: with what it had on a disk it must never come back.
        lasting = (place is None or place.durable) and peer not in self.departed()
        if lasting and not await self.store.put(REMOVED + peer, REPLACED):
            return
        # The note may have waited for a majority, and for an election.
        if not await self._may_go(peer, silent_s):
            return  # if it came back, the note is taken back
        await remove_server(self.system, peer)
        _log.info("the former server %s was removed", peer)
        for prefix in (SERVER, LEAVING):
            for key, _ in self.store.items(prefix):
                if peer_id(key.removeprefix(prefix)) == peer:
                    await self.store.put(key, None)


def _behind(copies: Copies, gone: AbstractSet[str]) -> bool:
    return bool(copies.servers - copies.current - gone)
