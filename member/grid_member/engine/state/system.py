"""The system store: small values by key that every member agrees on, in a state machine.

They are what the cluster knows of itself: its version, license, added configuration, remembered
outcomes of calls. They are read and written in every cluster state.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from grid_member.engine.api import Reason, Refused
from grid_member.engine.state.maps import ENTRY_OVERHEAD_BYTES, key_bytes

if TYPE_CHECKING:
    from grid_member.engine.api import Done
    from grid_member.engine.state.operations import SystemExpire, SystemPut, SystemRemove
    from grid_member.engine.state.snapshot import SystemValuePart

MAX_SYSTEM_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all keys and values together, and `ENTRY_OVERHEAD_BYTES` for each."""
_HEAP_SLACK: Final = 1024
"""Outdated ends that are kept before the index of ends is built anew."""

_FULL: Final = Refused(
    Reason.OVERLOADED, f"the system store is full: it holds {MAX_SYSTEM_BYTES >> 20} MiB at most"
)


class SystemStore(Protocol):
    """Values by key. It works in every cluster state and before the end of the start is empty.

    What is put in one tick of the event loop, and a change of the cluster state in that tick,
    travel in one record and are applied together.
    """

    def system_get(self, key: str) -> bytes | None:
        """Return the value, None when there is none or its time is over."""

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return the keys that begin with prefix and their values, ordered by key."""

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        """Set a value; None removes it, 0 seconds are for ever."""


class SystemValue(NamedTuple):
    """A value and when its time is over, 0 for never."""

    value: bytes
    deadline_ms: int


class SystemValues:
    """The system store's section of a state."""

    def __init__(self) -> None:
        self.by_key: dict[str, SystemValue] = {}
        self.live_bytes = 0
        self._keys: list[str] = []
        """In order."""
        self._ends: list[tuple[int, str]] = []
        """A heap; what is not found under it any more is outdated."""
        self.changes: set[str] | None = None
        """Keys that changed, for whoever wants to hear of them and empties it. Not replicated."""

    # Reads

    def get(self, key: str, now_ms: int) -> bytes | None:
        """Return the value unless its time is over."""
        found = self.by_key.get(key)
        return None if found is None or _is_over(found, now_ms) else found.value

    def items(self, prefix: str, now_ms: int) -> list[tuple[str, bytes]]:
        """Return what lives under keys that begin with prefix, ordered by key."""
        items: list[tuple[str, bytes]] = []
        for place in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[place]
            if not key.startswith(prefix):
                break
            found = self.by_key[key]
            if not _is_over(found, now_ms):
                items.append((key, found.value))
        return items

    def overdue(self, now_ms: int) -> bool:
        """Tell whether the time of anything may be over."""
        return bool(self._ends) and self._ends[0][0] <= now_ms

    def refusal(self, key: str, value: bytes, now_ms: int) -> Refused | None:
        """Return why the value cannot be put, None when it can; what is over may make room."""
        if self.overdue(now_ms):
            return None
        return self._refusal(key, value)

    def _refusal(self, key: str, value: bytes) -> Refused | None:
        old = self.by_key.get(key)
        before = 0 if old is None else _size_bytes(key, old.value)
        full = self.live_bytes - before + _size_bytes(key, value) > MAX_SYSTEM_BYTES
        return _FULL if full else None

    # Snapshots

    def snapshot(self) -> dict[str, SystemValue]:
        """Return a copy of everything."""
        return self.by_key.copy()

    def load(self, part: SystemValuePart) -> None:
        """Add a value of a snapshot."""
        self._store(part.key, SystemValue(part.value, part.deadline_ms))

    # Applying: operation, member, place, now_ms

    def put(self, operation: SystemPut, member: bytes, place: int, now_ms: int) -> Refused | None:
        """Create or replace a value."""
        self._drop_over(now_ms)
        key, value, ttl_ms = operation
        refused = self._refusal(key, value)
        if refused is None:
            self._store(key, SystemValue(value, now_ms + ttl_ms if ttl_ms else 0))
        return refused

    def remove(self, operation: SystemRemove, member: bytes, place: int, now_ms: int) -> None:
        """Remove a value, if there is one."""
        self._drop_over(now_ms)
        self._drop(operation.key)

    def expire(self, operation: SystemExpire, member: bytes, place: int, now_ms: int) -> None:
        """Remove every value whose time is over."""
        self._drop_over(now_ms)

    def _store(self, key: str, value: SystemValue) -> None:
        self._drop(key)
        insort(self._keys, key)
        self.by_key[key] = value
        if self.changes is not None:
            self.changes.add(key)
        self.live_bytes += _size_bytes(key, value.value)
        if value.deadline_ms:
            heapq.heappush(self._ends, (value.deadline_ms, key))
            self._shrink_index()

    def _drop(self, key: str) -> None:
        old = self.by_key.pop(key, None)
        if old is not None:
            self.live_bytes -= _size_bytes(key, old.value)
            del self._keys[bisect_left(self._keys, key)]
            if self.changes is not None:
                self.changes.add(key)

    def _drop_over(self, now_ms: int) -> None:
        while self.overdue(now_ms):
            deadline_ms, key = heapq.heappop(self._ends)
            found = self.by_key.get(key)
            if found is not None and found.deadline_ms == deadline_ms:
                self._drop(key)

    def _shrink_index(self) -> None:
        if len(self._ends) > 2 * len(self.by_key) + _HEAP_SLACK:
            self._ends = [(v.deadline_ms, k) for k, v in self.by_key.items() if v.deadline_ms]
            heapq.heapify(self._ends)


def _is_over(found: SystemValue, now_ms: int) -> bool:
    return 0 < found.deadline_ms <= now_ms


def _size_bytes(key: str, value: bytes) -> int:
    return key_bytes(key) + len(value) + ENTRY_OVERHEAD_BYTES
