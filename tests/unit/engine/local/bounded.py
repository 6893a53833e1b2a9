"""Maps with bounds as plainly as they can be written: what the fast ones are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from grid_member.engine.api import Eviction, EvictionPolicy
from grid_member.engine.state.maps import MAX_VICTIMS_PER_PUT


@dataclass
class StoredSnapshots:
    """An entry of the model."""

    value: bytes
    hits: int = 1
    stamp: int = 0
    """Grows from access to access."""
    over_ms: int | None = None
    """When its time to live is over."""
    idle_ms: int = 0
    accessed_ms: int = 0


class BoundedMap:
    """One map. Victims are found by looking at every entry."""

    def __init__(self) -> None:
        self.held: dict[str, StoredSnapshots] = {}
        self.policy: EvictionPolicy | None = None
        self._stamp = 0

    def put(
        self,
        key: str,
        value: bytes,
        eviction: Eviction | None,
        now_ms: int = 0,
        *,
        ttl_ms: int = 0,
        idle_ms: int = 0,
    ) -> None:
        if eviction is not None:
            self._follow(eviction.policy)
        old = self.held.get(key)
        held = StoredSnapshots(
            value, 1 if old is None else old.hits + 1, self._next(), None, idle_ms, now_ms
        )
        if ttl_ms:
            held.over_ms = now_ms + ttl_ms
        self.held[key] = held
        for _ in range(MAX_VICTIMS_PER_PUT):
            others = [other for other in self.held if other != key]
            if eviction is None or not others or not self._exceeds(eviction):
                break
            del self.held[min(others, key=self._rank)]

    def read(self, key: str, now_ms: int) -> bytes | None:
        """Read; what is found idle for too long goes, what its time to live ended stays, absent."""
        held = self.held.get(key)
        if held is None or (held.over_ms is not None and held.over_ms <= now_ms):
            return None
        if held.idle_ms > 0 and held.accessed_ms + held.idle_ms <= now_ms:
            self.remove(key)
            return None
        held.accessed_ms = now_ms
        self.touch(key, 1)
        return held.value

    def touch(self, key: str, hits: int) -> None:
        held = self.held.get(key)
        if held is not None:
            held.hits += hits
            held.stamp = self._next()

    def remove(self, key: str) -> None:
        self.held.pop(key, None)
        if not self.held:
            self.clear()

    def clear(self) -> None:
        self.held.clear()
        self.policy = None

    def _follow(self, policy: EvictionPolicy) -> None:
        if policy is self.policy:
            return
        keys = list(self.held) if self.policy is None else sorted(self.held, key=self._rank)
        self.policy = policy
        for key in keys:
            self.held[key].hits = 1
            self.held[key].stamp = self._next()

    def _rank(self, key: str) -> tuple[int, int]:
        held = self.held[key]
        return (held.hits if self.policy is EvictionPolicy.LFU else 0, held.stamp)

    def _exceeds(self, eviction: Eviction) -> bool:
        size_bytes = sum(len(key.encode()) + len(held.value) for key, held in self.held.items())
        return (0 < eviction.max_entries < len(self.held)) or (0 < eviction.max_bytes < size_bytes)

    def _next(self) -> int:
        self._stamp += 1
        return self._stamp
