"""The maps of a state machine: entries, when they end, and which of them give way to others.

What the log's operations change is the same wherever they are applied. Beside it stand, not
replicated, what this member heard of reads and the index of what expires next.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from grid_member.engine.state.eviction import EvictionOrder, empty_order, lot
from grid_member.engine.state.operations import (
    MapClear,
    MapExpire,
    MapExpireIdle,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
)
from grid_member.engine.state.snapshot import EntryPart, Idleness, MapSnapshot, TrackedEntryPart
from grid_member.engine.state.stored import StoredEntry, as_entry, as_stored, value_bytes

if TYPE_CHECKING:
    from grid_member.engine.api import Entry, Eviction, EvictionPolicy, Refused
    from grid_member.engine.state.fields import EntryFields
    from grid_member.engine.state.local_reads import LocalReads
    from grid_member.engine.wan.map_wan import MapWan
    from grid_member.engine.wan.registry import Registry

ENTRY_OVERHEAD_BYTES: Final = 32
"""What an entry or item costs in the log beyond its key and value, about."""
EXPIRY_SLACK: Final = 1024
"""Outdated deadlines that are kept before the expiry index is built anew."""
MAX_VICTIMS_PER_PUT: Final = 64
"""Entries that one put evicts at most, so that a lowered limit stops nobody for long."""


class MapData:
    """A map's entries, when they end, and the order in which they give way."""

    __slots__ = (
        "deadlines",
        "entries",
        "fast",
        "idle",
        "local_reads",
        "order",
        "plain",
        "scheduled",
        "size_bytes",
        "wan",
    )  # fmt: skip

    def __init__(self, wan: MapWan | None = None) -> None:
        self.entries: dict[str, StoredEntry] = {}
        self.plain = True
        """Whether nothing but entries was ever kept, which makes most maps fast to read."""
        self.wan = wan
        """The map's part of WAN replication, None when the map is not replicated."""
        self.fast = wan is None
        """Whether the map is plain and not replicated, which makes most maps fast to write."""
        self.deadlines: dict[str, int] = {}
        """When an entry's time to live is over, for those that have one."""
        self.idle: dict[str, Idleness] = {}
        """For the entries that may become idle."""
        self.order: EvictionOrder | None = None
        """Once anything was written with a bound. It stays until the map is empty."""
        self.size_bytes = 0
        """Of keys, as UTF-8, and values."""
        self.local_reads: LocalReads | None = None
        """Reads that the log does not know of. Not replicated."""
        self.scheduled: dict[str, int] = {}
        """When the expiry index looks at a key, at its end or before. Not replicated."""

    def replicate(self, wan: MapWan | None) -> None:
        """Be replicated from now on, or not any more."""
        self.wan = wan
        self.fast = self.plain and wan is None

    def track(self) -> None:
        """Keep more than entries from now on."""
        self.plain = self.fast = False

    def follow(self, policy: EvictionPolicy) -> None:
        """Keep the policy's order from now on, begun with the order there was."""
        old = self.order
        if old is not None and old.policy is policy:
            return
        self.track()
        self.order = empty_order(policy)
        if old is not None:
            for _, keys in old.levels():
                for key in keys:
                    self.order.access(key, 1)
            return
        for key in self.entries:
            self.order.access(key, 1)

    def exceeds(self, eviction: Eviction) -> bool:
        """Tell whether the map holds more than it may."""
        return (0 < eviction.max_entries < len(self.entries)) or (
            0 < eviction.max_bytes < self.size_bytes
        )

    def forget(self, key: str) -> None:
        """Remove what is kept about an entry that is gone."""
        self.deadlines.pop(key, None)
        self.idle.pop(key, None)
        self.scheduled.pop(key, None)
        if self.order is not None:
            self.order.discard(key)
        if self.local_reads is not None:
            self.local_reads.forget(key)


class Maps:
    """The maps by name; there is no empty one."""

    def __init__(self, registry: Registry) -> None:
        """Begin with no map; the registry has those that are replicated."""
        self._registry = registry
        self.by_name: dict[str, MapData] = {}
        self.live_bytes = 0
        self._expiry: list[tuple[int, str, str]] = []
        self._graced_until_ms = -1
        """Reads of entries accessed up to then may be unknown: they count as accessed later."""

    # Reads

    def entry(self, name: str, key: str, now_ms: int) -> Entry | None:
        """Return the entry unless its time is over."""
        found = self.by_name.get(name)
        if found is None:
            return None
        stored = found.entries.get(key)
        if stored is None or self.expiry(found, name, key, now_ms) is not None:
            return None
        return as_entry(stored)

    def expiry(
        self, found: MapData, name: str, key: str, now_ms: int
    ) -> MapExpire | MapExpireIdle | None:
        """Return what removes the map's entry when its time is over, though it may be there still.

        None when its time is not over.
        """
        lives_until_ms = found.deadlines.get(key)
        if lives_until_ms is not None and lives_until_ms <= now_ms:
            return MapExpire(name, key)
        idleness = found.idle.get(key)
        if idleness is not None and self._idle_from(found, key, idleness) <= now_ms:
            return MapExpireIdle(name, key, idleness.accessed_ms)
        return None

    def begin_grace(self, until_ms: int) -> None:
        """Count what was accessed up to then as accessed as late as it may have been.

        After a replay: reads that were not worth a touch, or are other members', are in no log.
        """
        self._graced_until_ms = until_ms

    # Expiry

    def due(self, now_ms: int, limit: int) -> list[MapExpire | MapExpireIdle]:
        """Look at up to limit keys of the expiry index; take out those whose time is over.

        Whoever proposes their removal puts back with `postpone` what was refused.
        """
        over: list[MapExpire | MapExpireIdle] = []
        for _ in range(limit):
            if not self.overdue(now_ms):
                break
            scheduled_ms, name, key = heapq.heappop(self._expiry)
            found = self.by_name.get(name)
            if found is None or found.scheduled.get(key) != scheduled_ms:
                continue
            del found.scheduled[key]
            expiry = self.expiry(found, name, key, now_ms)
            if expiry is None:
                self._schedule(found, name, key)
            else:
                over.append(expiry)
        return over

    def overdue(self, now_ms: int) -> bool:
        """Tell whether the expiry index has a key to look at."""
        return bool(self._expiry) and self._expiry[0][0] <= now_ms

    def postpone(self, expiry: MapExpire | MapExpireIdle) -> None:
        """Put an entry that `due` returned back into the expiry index, if it is still there."""
        found = self.by_name.get(expiry.name)
        if found is not None:
            self._schedule(found, expiry.name, expiry.key)

    def _idle_from(self, found: MapData, key: str, idleness: Idleness) -> int:
        accessed_ms = idleness.accessed_ms
        if accessed_ms <= self._graced_until_ms:
            accessed_ms += idleness.precision_ms
        if found.local_reads is not None:
            accessed_ms = max(accessed_ms, found.local_reads.read_ms(key))
        return accessed_ms + idleness.idle_ms

    def _deadline(self, found: MapData, key: str) -> int | None:
        """Return when the entry is over as this member knows it, None for never."""
        lives_until_ms = found.deadlines.get(key)
        idleness = found.idle.get(key)
        if idleness is None:
            return lives_until_ms
        idle_from_ms = self._idle_from(found, key, idleness)
        return idle_from_ms if lives_until_ms is None else min(lives_until_ms, idle_from_ms)

    def _schedule(self, found: MapData, name: str, key: str) -> None:
        """Have the expiry index look at the key when it is over, as far as known now.

        A later end needs no new place: the index looks, and schedules it again.
        """
        deadline_ms = self._deadline(found, key)
        scheduled_ms = found.scheduled.get(key)
        if deadline_ms is None or (scheduled_ms is not None and scheduled_ms <= deadline_ms):
            return
        found.scheduled[key] = deadline_ms
        heapq.heappush(self._expiry, (deadline_ms, name, key))
        if len(self._expiry) > EXPIRY_SLACK and not len(self._expiry) % EXPIRY_SLACK:
            self._shrink_index()

    def _shrink_index(self) -> None:
        live = sum(len(found.scheduled) for found in self.by_name.values())
        if len(self._expiry) <= 2 * live + EXPIRY_SLACK:
            return
        self._expiry = [
            (scheduled_ms, name, key)
            for name, found in self.by_name.items()
            for key, scheduled_ms in found.scheduled.items()
        ]
        heapq.heapify(self._expiry)

    # Snapshots

    def snapshot(self) -> dict[str, MapSnapshot]:
        """Return copies of everything that a snapshot keeps."""
        return {
            name: MapSnapshot(
                found.entries.copy(),
                found.deadlines.copy(),
                found.idle.copy(),
                None if found.order is None else found.order.policy,
                [] if found.order is None else found.order.levels(),
            )
            for name, found in self.by_name.items()
        }

    def load(self, part: EntryPart | TrackedEntryPart) -> None:
        """Add an entry of a snapshot; those of one map come in its order of eviction."""
        if isinstance(part, EntryPart):
            name, key, value, content_type, deadline_ms = part
            of_name = self.by_name.get(name)
            if of_name is None or deadline_ms or not of_name.plain or key in of_name.entries:
                self._store(name, key, as_stored(value, content_type), deadline_ms)
            else:
                # As _store does it for plain maps, which are most of every snapshot.
                length = len(key) + len(value)
                self.live_bytes += length + ENTRY_OVERHEAD_BYTES
                of_name.size_bytes += length if key.isascii() else key_bytes(key) + len(value)
                of_name.entries[key] = value if content_type is None else (value, content_type)
            return
        found = self._of_name(part.name)
        if part.policy is not None:
            found.follow(part.policy)
        idleness = Idleness(part.idle_ms, part.accessed_ms) if part.idle_ms else None
        stored = as_stored(part.value, part.content_type)
        self._store(part.name, part.key, stored, part.deadline_ms, idleness, part.hits)

    # Applying: operation, member, place, now_ms

    def put(self, operation: MapPut, member: bytes, place: int, now_ms: int) -> Refused | None:
        """Create or replace an entry, unless a WAN queue is full that refuses writes."""
        name, key, value, content_type, ttl_ms = operation
        stored = value if content_type is None else (value, content_type)
        found = self.by_name.get(name)
        if found is None or ttl_ms or not found.fast:
            wan = self._registry.of(name) if found is None else found.wan
            if wan is not None:
                refused = wan.refusal(key, member)
                if refused is not None:
                    return refused
                wan.put(key, self._registry.tick(now_ms), member, place)
            if found is None or ttl_ms or not found.plain:
                self._store(name, key, stored, now_ms + ttl_ms if ttl_ms else 0)
                return None
        # As _store does it for plain maps, which are most of every load.
        entries, grown = found.entries, len(value)
        old = entries.get(key)
        entries[key] = stored
        if old is not None:
            grown -= len(old if isinstance(old, bytes) else old[0])
            if not grown:
                return None
            self.live_bytes += grown
        else:
            self.live_bytes += len(key) + grown + ENTRY_OVERHEAD_BYTES
            grown += len(key) if key.isascii() else key_bytes(key)
        found.size_bytes += grown
        return None

    def put_bounded(
        self, operation: MapPutBounded, member: bytes, place: int, now_ms: int
    ) -> Refused | None:
        """Create or replace an entry, then evict others while the map holds too much.

        Nothing is stored when a WAN queue is full that refuses writes.
        """
        name, key, value, content_type, ttl_ms, idle_ms, eviction = operation
        found = self.by_name.get(name)
        wan = self._registry.of(name) if found is None else found.wan
        if wan is not None:
            refused = wan.refusal(key, member)
            if refused is not None:
                return refused
            wan.put(key, self._registry.tick(now_ms), member, place)
        # A plain tuple: to make a named one would take a fifth of such a put.
        entry = name, key, value, content_type, now_ms + ttl_ms if ttl_ms else 0
        self.store_bounded(entry, Idleness(idle_ms, now_ms) if idle_ms else None, eviction, place)
        return None

    def store_bounded(
        self, entry: EntryFields, idleness: Idleness | None, eviction: Eviction | None, place: int
    ) -> None:
        """Store an entry, then evict others while the map holds too much."""
        name, key, value, content_type, deadline_ms = entry
        found = self._of_name(name)
        if eviction is not None:
            found.follow(eviction.policy)
        self._store(name, key, as_stored(value, content_type), deadline_ms, idleness)
        if eviction is not None:
            self._evict(found, name, key, eviction, place)

    def touch(self, operation: MapTouch, member: bytes, place: int, now_ms: int) -> None:
        """Note reads; a time ahead of the log's counts as now."""
        found = self.by_name.get(operation.name)
        if found is None:
            return
        for key, accessed_ms, hits in operation.accesses:
            if key not in found.entries:
                continue
            idleness = found.idle.get(key)
            accessed_ms = min(accessed_ms, now_ms)
            if idleness is not None and idleness.accessed_ms < accessed_ms:
                found.idle[key] = idleness._replace(accessed_ms=accessed_ms)
            if found.order is not None and hits:
                found.order.access(key, hits)

    def remove(
        self, operation: MapRemove, member: bytes, place: int, now_ms: int
    ) -> Refused | None:
        """Remove an entry, if there is one, unless a WAN queue is full that refuses writes."""
        name, key = operation
        found = self.by_name.get(name)
        wan = self._registry.of(name) if found is None else found.wan
        if wan is not None:
            refused = wan.refusal(key, member)
            if refused is not None:
                return refused
            wan.remove(key, self._registry.tick(now_ms), member, place)
        if found is not None:
            self._drop(found, name, key)
        return None

    def expire(self, operation: MapExpire, member: bytes, place: int, now_ms: int) -> None:
        """Remove an entry whose time to live is over."""
        name, key = operation
        found = self.by_name.get(name)
        if found is not None and found.deadlines.get(key, now_ms + 1) <= now_ms:
            if found.wan is not None:
                found.wan.expire(key)
            self._drop(found, name, key)

    def expire_idle(self, operation: MapExpireIdle, member: bytes, place: int, now_ms: int) -> None:
        """Remove an entry that nobody accessed since its removal was proposed."""
        found = self.by_name.get(operation.name)
        idleness = None if found is None else found.idle.get(operation.key)
        if found is None or idleness is None or idleness.accessed_ms != operation.accessed_ms:
            return
        if idleness.accessed_ms + idleness.idle_ms <= now_ms:
            if found.wan is not None:
                found.wan.forget(operation.key)
            self._drop(found, operation.name, operation.key)

    def clear(self, operation: MapClear, member: bytes, place: int, now_ms: int) -> None:
        """Remove all entries of a map."""
        wan = self._registry.of(operation.name)
        self.drop_all(operation.name)
        if wan is not None:
            wan.clear(self._registry.tick(now_ms), member, place)

    def drop_all(self, name: str) -> None:
        """Drop all entries of a map, and their stamps."""
        found = self.by_name.pop(name, None)
        if found is None:
            return
        self.live_bytes -= sum(
            len(key) + value_bytes(stored) + ENTRY_OVERHEAD_BYTES
            for key, stored in found.entries.items()
        )
        if found.wan is not None:
            found.wan.entries_cleared()

    def drop(self, name: str, key: str) -> None:
        """Drop an entry, if there is one; its stamp is not touched."""
        found = self.by_name.get(name)
        if found is not None:
            self._drop(found, name, key)

    def _of_name(self, name: str) -> MapData:
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = MapData(self._registry.maps.get(name))
        return found

    def _store(
        self,
        name: str,
        key: str,
        stored: StoredEntry,
        deadline_ms: int,
        idleness: Idleness | None = None,
        hits: int = 1,
    ) -> None:
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = MapData(self._registry.maps.get(name))
        entries, grown = found.entries, value_bytes(stored)
        old = entries.get(key)
        if old is not None:
            grown -= value_bytes(old)
            self.live_bytes += grown
        else:
            self.live_bytes += len(key) + grown + ENTRY_OVERHEAD_BYTES
            grown += key_bytes(key)
        found.size_bytes += grown
        entries[key] = stored
        if found.plain and not deadline_ms and idleness is None:
            return
        found.track()
        if found.order is not None:
            found.order.access(key, hits)
        if deadline_ms:
            found.deadlines[key] = deadline_ms
        else:
            found.deadlines.pop(key, None)
        if idleness is not None:
            found.idle[key] = idleness
        else:
            found.idle.pop(key, None)
        if found.local_reads is not None:
            found.local_reads.forget_before_write(key)
        self._schedule(found, name, key)

    def _evict(
        self, found: MapData, name: str, spared: str, eviction: Eviction, place: int
    ) -> None:
        for number in range(MAX_VICTIMS_PER_PUT):
            if found.order is None or not found.exceeds(eviction):
                return
            victim = found.order.victim(spared, lot(place, number))
            if victim is None:
                return
            if found.wan is not None:
                found.wan.forget(victim)
            self._drop(found, name, victim)

    def _drop(self, found: MapData, name: str, key: str) -> None:
        stored = found.entries.pop(key, None)
        if stored is None:
            return
        length = value_bytes(stored)
        self.live_bytes -= len(key) + length + ENTRY_OVERHEAD_BYTES
        found.size_bytes -= key_bytes(key) + length
        if not found.entries:
            del self.by_name[name]
        elif not found.plain:
            found.forget(key)


def key_bytes(key: str) -> int:
    """Return the key's length in UTF-8."""
    return len(key) if key.isascii() else len(key.encode("utf-8", "surrogatepass"))
