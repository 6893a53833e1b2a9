"""What this member knows of its reads of one map beyond what the log knows. Not replicated.

Bounded by the map's entries: what is said about a key goes when its entry goes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.state.operations import Access

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

MAX_PENDING_READS: Final = 4096
"""Keys of a map whose reads wait to be logged; a further one sends them off."""
MAX_PENDING_CHARACTERS: Final = 256 * 1024
"""Length of those keys together."""
_MAX_HITS: Final = 2**32 - 1


class _LocalRead(NamedTuple):
    read_ms: int
    """The last read."""
    sent_ms: int
    """The last read that was sent to the log, 0 for none."""


class LocalReads:
    """The reads of one map's keys."""

    __slots__ = ("_pending", "_pending_characters", "_readings")

    def __init__(self) -> None:
        self._readings: dict[str, _LocalRead] = {}
        self._pending: OrderedDict[str, Access] = OrderedDict()
        self._pending_characters = 0

    @property
    def full(self) -> bool:
        """Whether as many reads wait to be logged as may."""
        return (
            len(self._pending) >= MAX_PENDING_READS
            or self._pending_characters >= MAX_PENDING_CHARACTERS
        )

    def read_ms(self, key: str) -> int:
        """Return when the key was read last, 0 when not since it was written."""
        reading = self._readings.get(key)
        return 0 if reading is None else reading.read_ms

    def read(self, key: str, now_ms: int) -> int:
        """Note a read of an entry that may become idle; return the last read that was sent."""
        reading = self._readings.get(key)
        sent_ms = 0 if reading is None else reading.sent_ms
        self._readings[key] = _LocalRead(now_ms, sent_ms)
        return sent_ms

    def collect(self, key: str, now_ms: int, hits: int) -> None:
        """Let the read wait to be logged, behind those of all other keys.

        When they are full because the log does not take them, the oldest one is given up.
        """
        before = self._pending.pop(key, None)
        if before is not None:
            hits = min(hits + before.hits, _MAX_HITS)
        else:
            if self.full:
                given_up, _ = self._pending.popitem(last=False)
                self._pending_characters -= len(given_up)
            self._pending_characters += len(key)
        self._pending[key] = Access(key, now_ms, hits)

    def take(self) -> tuple[Access, ...]:
        """Return what waits, and remember it as sent."""
        accesses = tuple(self._pending.values())
        self._pending.clear()
        self._pending_characters = 0
        for access in accesses:
            reading = self._readings.get(access.key)
            if reading is not None:
                self._readings[access.key] = reading._replace(sent_ms=access.accessed_ms)
        return accesses

    def put_back(self, accesses: Iterable[Access]) -> None:
        """Let what the log did not take wait again, before what came later."""
        for access in reversed(list(accesses)):
            later = self._pending.get(access.key)
            if later is not None:
                hits = min(access.hits + later.hits, _MAX_HITS)
                self._pending[access.key] = later._replace(hits=hits)
            elif not self.full:
                self._pending_characters += len(access.key)
                self._pending[access.key] = access
                self._pending.move_to_end(access.key, last=False)

    def forget_before_write(self, key: str) -> None:
        """Forget reads that a write makes old news for idleness."""
        self._readings.pop(key, None)

    def forget(self, key: str) -> None:
        """Forget a key whose entry is gone."""
        self._readings.pop(key, None)
        if self._pending.pop(key, None) is not None:
            self._pending_characters -= len(key)

    def keep(self, keys: Container[str]) -> None:
        """Forget all other keys."""
        for key in [*self._readings, *self._pending]:
            if key not in keys:
                self.forget(key)
