"""A map of one shard as a comparison of two clusters reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.engine.wan.digests import Held
from grid_member.engine.wan.stamps import STAMP_BITS

if TYPE_CHECKING:
    from grid_member.engine.log.log import Clock
    from grid_member.engine.shard.shard import Shard

_UNSTAMPED: Final = (1 << STAMP_BITS) - 1
"""Of entries of a map that no cluster has sent anything of: the first change of another cluster
makes them newer than all that the other cluster had before."""


class ComparedMap:
    """Tells what the map holds at the moment of each call. It keeps no state of the shard."""

    def __init__(self, shard: Shard, name: str, clock: Clock) -> None:
        self._shard = shard
        self._name = name
        self._clock = clock

    def keys(self) -> list[str]:
        """Return the keys of all entries."""
        found = self._shard.state.maps.by_name.get(self._name)
        return [] if found is None else list(found.entries)

    def removed_keys(self) -> list[str]:
        """Return the keys of all tombstones."""
        found = self._shard.state.wan.maps.get(self._name)
        return [] if found is None else list(found.tombstones)

    @property
    def cleared(self) -> int:
        """The stamp of the last clear; 0 without one."""
        found = self._shard.state.wan.maps.get(self._name)
        return 0 if found is None else found.cleared

    @property
    def purged(self) -> int:
        """The newest stamp of a tombstone that was purged by time or number."""
        wan = self._shard.state.wan
        found = wan.maps.get(self._name)
        return wan.forgotten if found is None else found.purged

    def held(self, key: str) -> Held | None:
        """Return what is known of a key. An entry whose time is over is a removal."""
        state = self._shard.state
        of_map, found = state.maps.by_name.get(self._name), state.wan.maps.get(self._name)
        stored = None if of_map is None else of_map.entries.get(key)
        if of_map is None or stored is None:
            stamp = 0 if found is None else found.tombstones.get(key, 0)
            return Held(stamp, None, None, 0) if stamp else None
        stamp = _UNSTAMPED if found is None else found.stamp(key)
        deadline_ms = of_map.deadlines.get(key, 0)
        if deadline_ms and deadline_ms <= max(self._clock(), state.timestamp_ms):
            return Held(stamp, None, None, 0)
        value, content_type = (stored, None) if isinstance(stored, bytes) else stored
        return Held(stamp, value, content_type, deadline_ms)
