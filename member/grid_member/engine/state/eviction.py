"""The order in which a map's entries are evicted.

Exact and deterministic: orders that were told of the same accesses name the same victims, and
`levels` lists what rebuilds an order. An access costs the same however many keys there are.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.api import EvictionPolicy

if TYPE_CHECKING:
    from grid_member.engine.state.snapshot import Level

_MASK_64: Final = 2**64 - 1


class EvictionOrder(Protocol):
    """The keys of one map in the order of a policy."""

    policy: EvictionPolicy
    counts_reads: bool
    """Whether a read changes the order."""

    def access(self, key: str, hits: int) -> None:
        """Note that key, which may be new, was accessed so many times, at least once."""

    def discard(self, key: str) -> None:
        """Forget a key that is in the order."""

    def victim(self, spared: str, draw: int) -> str | None:
        """Return the key to evict, never the spared one; None when there is no other.

        Args:
            spared: a key in the order, accessed last.
            draw: a number for the policy that draws lots.
        """

    def levels(self) -> list[Level]:
        """Return a copy; `access` with each key and its hits in turn rebuilds this order."""


class RecencyOrder:
    """LRU: who was accessed longest ago goes first."""

    __slots__ = ("_keys",)
    policy = EvictionPolicy.LRU
    counts_reads = True

    def __init__(self) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()

    def access(self, key: str, hits: int) -> None:
        """Move the key to the end; how often it was accessed is nothing here."""
        self._keys[key] = None
        self._keys.move_to_end(key)

    def discard(self, key: str) -> None:
        """Forget a key that is in the order."""
        del self._keys[key]

    def victim(self, spared: str, draw: int) -> str | None:
        """Return the first key; the spared one is the last."""
        first = next(iter(self._keys))
        return None if first == spared else first

    def levels(self) -> list[Level]:
        """Return the keys, longest ago first."""
        return [(1, list(self._keys))]


class _Level:
    """The keys that were accessed equally often, longest ago first; levels form a list."""

    __slots__ = ("above", "below", "hits", "keys")

    def __init__(self, hits: int) -> None:
        self.hits = hits
        self.keys: OrderedDict[str, None] = OrderedDict()
        self.below = self
        self.above = self

    def insert_above(self, other: _Level) -> None:
        """Put other into the list, just above this."""
        other.below, other.above = self, self.above
        self.above.below = other
        self.above = other

    def unlink(self) -> None:
        """Leave the list."""
        self.below.above = self.above
        self.above.below = self.below


class FrequencyOrder:
    """LFU: who was accessed least often goes first, among equals who was longest ago."""

    __slots__ = ("_bottom", "_levels")
    policy = EvictionPolicy.LFU
    counts_reads = True

    def __init__(self) -> None:
        self._levels: dict[str, _Level] = {}
        self._bottom = _Level(0)
        """Below the lowest level and, as the list is a ring, above the highest."""

    def access(self, key: str, hits: int) -> None:
        """Raise the key by so many levels, to the end of its new one."""
        old = self._levels.get(key)
        if old is None:
            below = self._below_new(hits)
        else:
            hits += old.hits
            below = old
            # Not more steps than accesses: together they cost what the accesses did one by one.
            while below.above is not self._bottom and below.above.hits < hits:
                below = below.above
        level = below.above
        if level.hits != hits:
            level = _Level(hits)
            below.insert_above(level)
        level.keys[key] = None
        self._levels[key] = level
        if old is not None:
            self._take(old, key)

    def discard(self, key: str) -> None:
        """Forget a key that is in the order."""
        self._take(self._levels.pop(key), key)

    def victim(self, spared: str, draw: int) -> str | None:
        """Return the first key of the lowest level; the spared one is the last of its own."""
        level = self._bottom.above
        first = next(iter(level.keys))
        if first != spared:
            return first
        above = level.above
        return None if above is self._bottom else next(iter(above.keys))

    def levels(self) -> list[Level]:
        """Return the keys from the lowest level on, longest ago first."""
        found: list[Level] = []
        level = self._bottom.above
        while level is not self._bottom:
            found.append((level.hits, list(level.keys)))
            level = level.above
        return found

    def _below_new(self, hits: int) -> _Level:
        """Find what a new key's level goes above: at the bottom, or near the top in a snapshot."""
        if self._bottom.above.hits >= hits:
            return self._bottom
        below = self._bottom.below
        while below.hits >= hits:
            below = below.below
        return below

    def _take(self, level: _Level, key: str) -> None:
        del level.keys[key]
        if not level.keys:
            level.unlink()


class LotOrder:
    """RANDOM: the draw decides; the order only makes equal draws mean equal keys."""

    __slots__ = ("_keys", "_places")
    policy = EvictionPolicy.RANDOM
    counts_reads = False

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._places: dict[str, int] = {}

    def access(self, key: str, hits: int) -> None:
        """Give a new key a place."""
        if key not in self._places:
            self._places[key] = len(self._keys)
            self._keys.append(key)

    def discard(self, key: str) -> None:
        """Give the place of a key to the last one."""
        last = self._keys.pop()
        place = self._places.pop(key)
        if last != key:
            self._keys[place] = last
            self._places[last] = place

    def victim(self, spared: str, draw: int) -> str | None:
        """Return the key whose lot was drawn; the one after it instead of the spared one."""
        if len(self._keys) < 2:
            return None
        place = draw % len(self._keys)
        key = self._keys[place]
        return key if key != spared else self._keys[(place + 1) % len(self._keys)]

    def levels(self) -> list[Level]:
        """Return the keys by their places."""
        return [(1, self._keys.copy())]


def empty_order(policy: EvictionPolicy) -> EvictionOrder:
    """Return an order of the policy that holds no key."""
    if policy is EvictionPolicy.LRU:
        return RecencyOrder()
    if policy is EvictionPolicy.LFU:
        return FrequencyOrder()
    return LotOrder()


def lot(place: int, number: int) -> int:
    """Return a number below 2**64 that depends on nothing but the place and the number.

    The finalizer of splitmix64 (Steele, Lea and Flood 2014): neighbours come out far apart.
    """
    mixed = (place * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & _MASK_64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return mixed ^ (mixed >> 31)
