"""Reads of maps whose entries go when nobody reads them, and what the log is told of such reads.

A plain map is read in the engine itself. Here a read is noted: for idleness exactly in memory and
now and then in the log, so that a restart knows of it; for an order of eviction in the log before
the next put, so that whoever applies the put evicts the same entries. Where other members put,
they do not wait for that: reads are sent once a second.

A reader never waits for any of it, nor hears of a log that does not take it: what was refused is
sent again later. Only who finds an entry idle for too long is answered when the log knows of that:
else the entry might come back after a crash, for reads that the log did not hear of.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from grid_member.engine.api import Refused
from grid_member.engine.state.local_reads import LocalReads
from grid_member.engine.state.operations import Access, MapExpireIdle, MapTouch
from grid_member.engine.state.stored import as_entry

if TYPE_CHECKING:
    from grid_member.engine.api import Done, Entry, MapSettings
    from grid_member.engine.log.log import Clock
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.maps import MapData
    from grid_member.engine.state.operations import MapExpire


class MapReads:
    """The noted reads of one shard's maps."""

    def __init__(self, shard: Shard, clock: Clock, *, has_other_writers: bool) -> None:
        """Note nothing yet; other writers are members that know nothing of these reads."""
        self._shard = shard
        self._clock = clock
        self._has_other_writers = has_other_writers
        self._urgent: set[str] = set()
        """Maps with a read that the log should know of soon."""
        self._waiting: set[str] = set()
        """Maps with a read that the log should know of when `send_urgent` is called next."""
        self._held = False
        """Whether the log refused the last touch: the next try comes with `send_urgent`."""

    def read(
        self, found: MapData, name: str, key: str, settings: MapSettings, done: Done[Entry | None]
    ) -> None:
        """Give the entry of the map unless its time is over, and note that it was read."""
        stored = found.entries.get(key)
        if stored is None:
            done(None)
            return
        now_ms = 0
        if found.deadlines or found.idle:
            state = self._shard.state
            # The log's time may be ahead of a clock that was set back: what was absent stays so.
            now_ms = max(self._clock(), state.timestamp_ms)
            expiry = state.maps.expiry(found, name, key, now_ms)
            if expiry is not None:
                self._end(expiry, settings, done)
                return
        if found.idle or settings.eviction is not None:
            self._note(found, name, key, now_ms, counts=settings.eviction is not None)
        done(as_entry(stored))

    def send(self, name: str) -> None:
        """Send what is noted of the map with this tick's record."""
        self._urgent.discard(name)
        self._waiting.discard(name)
        found = self._shard.state.maps.by_name.get(name)
        if found is None or found.local_reads is None:
            return
        accesses = found.local_reads.take()
        if accesses:
            size_bytes = sum(len(access.key) for access in accesses)
            answer = partial(self.note_touch, name, accesses)
            self._shard.propose(MapTouch(name, accesses), answer, size_bytes)

    def send_urgent(self) -> None:
        """Send what is noted of the maps for which it is time."""
        for name in self._urgent | self._waiting:
            self.send(name)

    def send_all(self) -> None:
        """Send whatever is noted: the member stops."""
        for name in list(self._shard.state.maps.by_name):
            self.send(name)

    def note_touch(self, name: str, accesses: tuple[Access, ...], outcome: Refused | None) -> None:
        """Take back what the log refused, for as long as the entries are there."""
        self._held = isinstance(outcome, Refused)
        if not self._held:
            return
        found = self._shard.state.maps.by_name.get(name)
        if found is not None and found.local_reads is not None:
            found.local_reads.put_back(access for access in accesses if access.key in found.entries)
            self._urgent.add(name)

    def _end(
        self, expiry: MapExpire | MapExpireIdle, settings: MapSettings, done: Done[Entry | None]
    ) -> None:
        """Answer that the entry is gone, as soon as no restart brings it back."""
        if not isinstance(expiry, MapExpireIdle):
            done(None)  # the log has its deadline
            return

        def answer(outcome: Refused | None) -> None:
            found = self._shard.state.maps.by_name.get(expiry.name)
            if isinstance(outcome, Refused) or found is None:
                # A log that takes nothing stops no reader.
                done(None)
            else:
                # A touch, sent before, may have kept the entry; it is over all the same.
                self.read(found, expiry.name, expiry.key, settings, done)

        self._shard.propose(expiry, answer, len(expiry.key))

    def _note(self, found: MapData, name: str, key: str, now_ms: int, *, counts: bool) -> None:
        idleness = found.idle.get(key)
        counts = counts and found.order is not None and found.order.counts_reads
        if idleness is None and not counts:
            return
        local_reads = found.local_reads
        if local_reads is None:
            local_reads = found.local_reads = LocalReads()
        urgent = False
        if idleness is not None:
            logged_ms = max(idleness.accessed_ms, local_reads.read(key, now_ms))
            urgent = now_ms - logged_ms > idleness.precision_ms
        if urgent or counts:
            local_reads.collect(key, now_ms, 1 if counts else 0)
        if urgent or local_reads.full:
            self._hurry(name)
        elif counts and self._has_other_writers:
            self._waiting.add(name)

    def _hurry(self, name: str) -> None:
        if not self._urgent and not self._held:
            self._shard.call_soon(self.send_urgent)
        self._urgent.add(name)
