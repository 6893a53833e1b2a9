"""The copies of the streams, looked at once a second: are there as many as there should be?

fewer servers than copies wanted ─▶ fewer copies ─▶ more, when members have come
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from grid_member.engine.nats.admin.peers import Peers, peer_id, peers, unsettled_groups
from grid_member.engine.nats.admin.streams import Copies, change_copies, copies_of
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replication import NOT_REPLICATED, LockedOutError, Replication

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.replicas.servers import Servers

LOOK_S: Final = 1.0
OLD_S: Final = 5.0
"""A look that is older tells nothing of the present."""
WITHOUT_COPIES_S: Final = 60.0
"""A member that is given no copies for so long is ready without: the others may be in no state to
give it any, and must not be missed for that as well."""
LEADERLESS_S: Final = 20.0
"""A stream has no leader for longer than elections take: most of its copies are out of reach."""
MORE_AGAIN_S: Final = 5.0
"""More copies that could not be had are asked for again after so long: others need the lock."""
LACKING_S: Final = 10.0
"""A stream has fewer copies than servers and others for it, and they give it none: they do so at
once to those that have come."""
LEAST: Final = 2
"""Copies that a stream keeps where there are several members."""
_ON_DISK: Final = (
    "start those members; if their data is lost for good, start them on empty directories and ask "
    "one of them for partialStart, which goes on with the copies that are left"
)
_IN_MEMORY: Final = (
    "start those members again, or others in their places, with the same names and at the same "
    "addresses, and let those run that are left: they write back what they hold"
)
_log: Final = logging.getLogger("grid.engine.nats")


class CopyWatch:
    """What this member knows of the copies; makes more where its own server leads."""

    def __init__(
        self,
        servers: Servers,
        settings: ClusterSettings,
        steady: Callable[[], bool],
    ) -> None:
        """Look at nothing yet."""
        self._servers = servers
        self._settings = settings
        self._own = peer_id(servers.own)
        self._steady = steady
        """Whether copies may be moved in the cluster's present state."""
        self._replication = NOT_REPLICATED
        self._looked_s = 0.0
        self._begun_s = asyncio.get_running_loop().time()
        self._made: set[str] = set()
        """Streams whose own copy was current once."""
        self._reports: set[str] = set()
        self._lacking_since_s: dict[str, float] = {}
        self._more_from_s = 0.0
        """From when on more copies may be asked for."""
        self._leaderless_since_s: dict[str, float] = {}
        self.trouble: str | None = None
        """Which streams wait for whose copies, and what to do; None: nothing is known."""

    def replication(self, in_contact: bool) -> Replication:
        """Return what the last look told, as far as it is worth anything now."""
        told = self._replication
        if asyncio.get_running_loop().time() - self._looked_s > OLD_S:
            told = told._replace(not_current=max(told.not_current, 1))
        return told._replace(in_contact=in_contact)

    async def run(self) -> None:
        """Look for as long as the member lives."""
        while True:
            try:
                await self.look()
            except Exception as error:
                # On this others decide whether a member may be stopped.
                self._say(f"the copies cannot be looked at: {error!r}")
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """See how the copies are, and have more made."""
        streams = self._servers.streams
        found, looks = await asyncio.gather(
            self._peers(), asyncio.gather(*map(self._copies, streams))
        )
        copies = dict(zip(streams, looks, strict=True))
        expected = self._expected_copies(found)
        missing = sum(_missing(one, expected) for one in looks)
        replacing = found is None or await self._replaces(found, looks)
        healthy = not replacing and self._all_vote(found)
        self._replication = Replication(
            in_contact=False,
            replicas=expected * len(looks),
            not_current=missing if healthy else max(missing, 1),
            offline=tuple(sorted({name for one in looks if one for name in one.offline})),
            copied=self._replication.copied or self._has_copies(copies, found, replacing=replacing),
            moving=any(one.moving for one in looks if one is not None),
            absent=self._absent(found, missing),
        )
        self._looked_s = asyncio.get_running_loop().time()
        self.trouble = self._stuck(copies, found)
        if healthy and found is not None and self._steady():
            await self._make_more(copies, found)
        else:
            self._lacking_since_s = {}  # nobody could have given them any

    async def moving(self) -> bool:
        """Tell whether copies are moved now.

        Those of which nobody tells may be while a member leaves: what it led gets another leader.
        """
        looks = await asyncio.gather(*map(self._copies, self._servers.streams))
        moved = any(one.moving for one in looks if one is not None)
        return moved or (None in looks and bool(self._servers.leaving()))

    async def _peers(self) -> Peers | None:
        try:
            return await peers(self._servers.system)
        except NatsError:
            return None

    def _stuck(self, copies: Mapping[str, Copies | None], found: Peers | None) -> str | None:
        """Return which streams wait for servers that are silent, and what to do."""
        now_s, since_s = asyncio.get_running_loop().time(), self._leaderless_since_s
        self._leaderless_since_s = {
            stream: since_s.get(stream, now_s) for stream, one in copies.items() if one is None
        }
        stuck = [
            stream
            for stream, begun_s in self._leaderless_since_s.items()
            if now_s - begun_s >= LEADERLESS_S
        ]
        if found is None or not found.silent or not stuck:
            return None
        trouble = (
            f"{', '.join(stuck)}: most copies are out of reach, as the servers of "
            f"{self._servers.describe(found.silent)} are silent; "
            f"{_IN_MEMORY if self._settings.directory is None else _ON_DISK}"
        )
        self._say(trouble)
        return trouble

    def _absent(self, found: Peers | None, missing: int) -> str | None:
        """Return who or what is missing, for people, as far as that is known."""
        if found is None:
            return "nobody leads the servers now"
        servers, listed = self._servers, len(self._settings.members)
        colleagues = servers.colleagues()
        strange = found.ids - servers.present_servers() if colleagues is not None else frozenset()
        listed -= colleagues.lite() if colleagues is not None else 0
        told = []
        if found.silent:
            told.append(f"no word from {servers.describe(found.silent)}")
        if strange:
            whose = servers.describe(strange)
            told.append(f"counted, but of no member that gives signs of life: {whose}")
        if len(found.ids) < listed and not self._servers.departed():
            told.append(f"{len(found.ids)} members with data count, the list names {listed}")
        if missing and not self._steady():
            told.append("the cluster state, which is not active, lets none be made")
        return "; ".join(told) or None

    async def _replaces(self, found: Peers, looks: Sequence[Copies | None]) -> bool:
        """Tell whether a replaced server may vote still, or a successor or the own one not yet.

        Then the end of one more member may leave a stream without a majority, for ever.
        """
        groups = frozenset(one.group for one in looks if one is not None)
        held = frozenset(one.group for one in looks if one is not None and self._shares(one))
        try:
            servers = self._servers
            return not self._settings.lite and bool(
                await unsettled_groups(servers.system, servers.own, groups, found.ids, held)
            )
        except NatsError:
            return True

    def _shares(self, one: Copies) -> bool:
        """Tell whether the own server votes with others on a stream: a single copy has no group."""
        return bool(one.group) and self._own in one.servers and len(one.servers) > 1

    async def _copies(self, stream: str) -> Copies | None:
        try:
            return await copies_of(self._servers.client, stream)
        except NatsError:
            return None

    def _expected_copies(self, found: Peers | None) -> int:
        """Return how many copies there should be of each stream."""
        staying = len(found.ids - self._servers.leaving()) if found is not None else 0
        if not self._servers.departed():
            colleagues = self._servers.colleagues()
            lite = colleagues.lite() if colleagues is not None else 0
            staying = max(staying, len(self._settings.members) - lite)
        return max(1, min(self._settings.copies, staying))

    def _all_vote(self, found: Peers | None) -> bool:
        """Tell whether the servers that vote are those of the members, and all are heard of.

        With one that is gone among them the end of one more may be the end of the majority.
        """
        if found is None:
            return False
        named = self._servers.present_servers()
        members = self._servers.members(found.ids & named)
        if members > len(self._settings.members):
            self._say(
                f"the cluster has {members} members with data, the list of this one names "
                f"{len(self._settings.members)}: name all in join.tcp-ip.member-list"
            )
        own = self._settings.lite or self._own in found.ids
        told = self._servers.colleagues() is not None
        strange = told and found.ids - named
        return own and not found.silent and not strange

    def _has_copies(
        self, copies: Mapping[str, Copies | None], found: Peers | None, *, replacing: bool
    ) -> bool:
        """Tell whether this member has the copies that it is to have; once is enough."""
        if self._settings.lite:
            return True
        waited_s = asyncio.get_running_loop().time() - self._begun_s
        if replacing and waited_s < WITHOUT_COPIES_S:
            return False
        for stream, one in copies.items():
            if one is not None and self._has_own_copy(one, found):
                self._made.add(stream)
        if len(self._made) == len(copies):
            return True
        held = any(one is None or self._own in one.servers for one in copies.values())
        if held or waited_s < WITHOUT_COPIES_S:
            return False
        self._say("this member was given no copies of the data and goes on without")
        return True

    def _has_own_copy(self, one: Copies, found: Peers | None) -> bool:
        if self._own in one.servers:
            return self._own in one.current
        # Enough others have it, and none of them is away: nobody waits for this one's copy.
        voting = found.ids - found.silent if found is not None else frozenset()
        return len(one.servers & voting) >= one.wanted

    async def _make_more(self, copies: Mapping[str, Copies | None], found: Peers) -> None:
        """Let those that have come hold copies, too; whoever leads a stream asks for it."""
        own = {name: one for name, one in copies.items() if one and one.leader == self._own}
        if any(one.wanted > self._settings.copies for one in own.values() if not one.moving):
            self._say(
                "another member wants more copies than this one: backup-count of the maps "
                "and queues has to be the same on all members"
            )
        now_s, wanted = asyncio.get_running_loop().time(), self._wanted_copies(found)
        lacking = self._lacking(own, now_s)
        short = [
            name
            for name, one in own.items()
            if not one.moving and _due(one, wanted, lacking=name in lacking) != one.wanted
        ]
        if not short or now_s < self._more_from_s:
            return
        with contextlib.suppress(LockedOutError):  # another member is at it
            async with self._lock():
                if not await self._ask_for_more(short, lacking):
                    self._more_from_s = now_s + MORE_AGAIN_S

    def _lacking(self, own: Mapping[str, Copies], now_s: float) -> frozenset[str]:
        """Return which streams the servers have given no copy for a while that they lack."""
        since_s = self._lacking_since_s
        self._lacking_since_s = since_s = {
            name: since_s.get(name, now_s)
            for name, one in own.items()
            if LEAST <= len(one.servers) < one.wanted and not one.moving
        }
        return frozenset(name for name, begun_s in since_s.items() if now_s - begun_s >= LACKING_S)

    async def _ask_for_more(self, short: Iterable[str], lacking: frozenset[str]) -> bool:
        """Ask for more copies of these streams; tell whether all was done. The lock is held.

        Whoever has the lock has applied all that was noted before: who leaves, and the state, which
        nobody changes meanwhile.
        """
        found = await self._peers()
        if found is None or found.silent:
            return False
        wanted = self._wanted_copies(found)
        for stream in short:
            one = await self._copies(stream)  # it may have been moved until the lock was had
            if not self._steady():
                return False
            if one is None or one.moving or one.leader != self._own:
                continue
            copies = _due(one, wanted, lacking=stream in lacking)
            if copies != one.wanted:
                _log.info("%s gets %d copies in place of %d", stream, copies, one.wanted)
                try:
                    await change_copies(self._servers.client, stream, copies)
                except NatsError as error:
                    self._say(f"{stream} does not get {copies} copies yet: {error}")
                    return False
        return True

    def _wanted_copies(self, found: Peers) -> int:
        return min(self._settings.copies, len(found.ids - self._servers.leaving()))

    def _lock(self) -> AbstractAsyncContextManager[None]:
        if self._servers.colleagues() is None:
            return contextlib.nullcontext()  # nobody is known who could change anything
        return self._servers.lock_cluster("makes more copies")

    def _say(self, what: str) -> None:
        """Log something once."""
        if what not in self._reports:
            self._reports.add(what)
            _log.warning("%s", what)


def _due(one: Copies, wanted: int, *, lacking: bool) -> int:
    """Return how many copies to ask for.

    Servers do not give a copy back to one that was to leave and stays after all, as long as a
    stream has fewer copies than it is to have: it is to have as many as it has first, then more.
    """
    if one.wanted < wanted:
        return wanted
    return max(LEAST, len(one.servers)) if lacking and one.wanted == wanted else one.wanted


def _missing(one: Copies | None, expected: int) -> int:
    if one is None:
        return expected  # nobody knows
    missing = max(expected, one.wanted) - len(one.current)
    return max(missing, 1 if one.moving else 0)
