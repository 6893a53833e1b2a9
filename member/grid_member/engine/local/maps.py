"""The maps of an engine: what is asked of them, and the shard that it goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.engine.api import Done, Entry, MapSettings, Reason, Refused, Structures
from grid_member.engine.local.placement import Placement
from grid_member.engine.local.system import SystemSide
from grid_member.engine.shard.answers import FAILED
from grid_member.engine.state.operations import (
    MapClear,
    MapPut,
    MapPutBounded,
    MapRemove,
    Operation,
    made,
)
from grid_member.engine.state.stored import shared

if TYPE_CHECKING:
    from grid_member.engine.log.log import Clock
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.shard.shards import Shards
    from grid_member.engine.state.stored import StoredEntry

MAX_WAYS: Final = 1024
"""Maps whose shard is remembered."""
PASSIVE: Final = Refused(Reason.PASSIVE, "the cluster state is PASSIVE: writes are refused")
T = TypeVar("T")


class MapSide(SystemSide):
    """What maps hold, and how that is changed."""

    _keeps_ways = False
    """Whether the shard of a map stays the same while the settings do."""

    def __init__(self, structures: Structures, shards: Shards, clock: Clock) -> None:
        super().__init__(shards, clock)
        self._structures = structures
        self._maps = Placement(shards, lambda shard: shard.state.maps.by_name)
        self._ways: dict[str, tuple[Shard, Shard, int]] = {}
        """The shard and the milliseconds to live of what is put into a map, for those whose entries
        go for no other reason; before them the shard that tells whether writes are taken. Until
        settings change, and while the member runs."""

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""
        way = self._ways.get(name)
        if way is not None:
            first, shard, ttl_ms = way
            if not first.state.passive:
                # As below, for most puts.
                if content_type is not None:
                    content_type = shared(content_type)
                operation = made(MapPut, (name, key, value, content_type, ttl_ms))
                shard.propose(operation, done, len(key) + len(value))
                return
        self._map_put(name, key, value, content_type, done)

    def _map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        found = self.growing_way(name, done)
        if found is None:
            return
        settings, shard, done = found
        if content_type is not None:
            content_type = shared(content_type)  # a few, of millions of entries
        fields = name, key, value, content_type, settings.time_to_live_s * 1000
        operation: MapPut | MapPutBounded
        if settings.max_idle_s or settings.eviction is not None:
            operation = MapPutBounded(*fields, settings.max_idle_s * 1000, settings.eviction)
            # What was read before this put must not be evicted by it first.
            shard.reads.send(name)
        else:
            operation = made(MapPut, fields)
            if self._keeps_ways and not self._maps.changed:
                self._note_way(name, shard, fields[-1])
        shard.propose(operation, done, len(key) + len(value))

    def growing_way(self, name: str, done: Done[T]) -> tuple[MapSettings, Shard, Done[T]] | None:
        """Return settings, shard and callback of what brings data; None once it was refused."""
        settings = self._structures.map_settings(name)
        refused = unconfigured_refusal("map") if settings is None else self._write_refusal()
        if settings is None or refused is not None:
            done(refused or unconfigured_refusal("map"))  # before the start there is no shard
            return None
        shard = self._maps.shard(name, settings.persistent)
        if self._maps.changed:
            done = self._maps.counting(name, shard, settings.persistent, done)
        return settings, shard, done

    def _note_way(self, name: str, shard: Shard, ttl_ms: int) -> None:
        if len(self._ways) >= MAX_WAYS:
            self._ways.clear()  # clients choose the names
        self._ways[name] = self._shards.durable[0], shard, ttl_ms

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        self.map_read(name, key, done)

    def map_read(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry as it is here now; None when there is no mapping or it has expired."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(unconfigured_refusal("map"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            shard = self._maps.shard(name, settings.persistent)
            found = shard.state.maps.by_name.get(name)
            if found is None:
                done(None)
            elif found.plain:
                stored = found.entries.get(key)
                if isinstance(stored, bytes):
                    done(Entry(stored, None))  # as `as_entry`, for most reads
                else:
                    done(None if stored is None else Entry(*stored))
            else:
                shard.reads.read(found, name, key, settings, done)

    def map_peek(self, name: str, key: str) -> StoredEntry | None:
        """Return what a plain map stores, if it is there and can be had at once.

        None says nothing: `map_get` tells the rest.
        """
        way = self._ways.get(name)
        if way is not None:
            shard = way[1]  # as below, for most reads
        else:
            settings = self._structures.map_settings(name)
            if settings is None or self._refusal is not None:
                return None
            shard = self._maps.shard(name, settings.persistent)
        found = shard.state.maps.by_name.get(name)
        return found.entries.get(key) if found is not None and found.plain else None

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""
        self._propose(name, MapRemove(name, key), done, len(key))

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""
        self._propose(name, MapClear(name), done, 0)

    def _write_refusal(self) -> Refused | None:
        if self._refusal is None and self._shards.durable[0].state.passive:
            return PASSIVE
        return self._refusal

    def _propose(self, name: str, operation: Operation, done: Done[T], size_bytes: int) -> None:
        settings = self._structures.map_settings(name)
        if settings is None:
            done(unconfigured_refusal("map"))
            return
        refused = self._write_refusal()
        if refused is not None:
            done(refused)
        else:
            self._maps.shard(name, settings.persistent).propose(operation, done, size_bytes)


class MapRead:
    """Reads an entry once a shard is current: what `reader` returns, for most requests."""

    __slots__ = ("_done", "_key", "_maps", "_name")

    def __init__(self, maps: MapSide, name: str, key: str, done: Done[Entry | None]) -> None:
        self._maps = maps
        self._name = name
        self._key = key
        self._done = done

    def __call__(self, refused: Refused | None) -> None:
        """Read, or tell why not; a failure, too."""
        if refused is not None:
            self._done(refused)
            return
        try:
            self._maps.map_read(self._name, self._key, self._done)
        except Exception:
            self._done(FAILED)  # nobody waits for it who was told before
            raise


def unconfigured_refusal(kind: str) -> Refused:
    """Return what an operation on a structure is answered that no configuration matches."""
    return Refused(Reason.NOT_CONFIGURED, f"no {kind} configuration matches the name")
