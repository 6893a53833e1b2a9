"""What a replicated map holds beside its entries: stamps, tombstones and queues."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Received
from grid_member.engine.wan.key_filter import KeyFilter
from grid_member.engine.wan.stamps import STAMP_BITS

if TYPE_CHECKING:
    from collections.abc import Collection

    from grid_member.engine.api import Refused
    from grid_member.engine.wan.agreement import MapReference, PublisherName
    from grid_member.engine.wan.publisher_queue import PublisherQueue, Shared

STAMP_OVERHEAD_BYTES: Final = 48
"""What a stamp or tombstone costs in a snapshot beyond the key, about."""
MAP_BYTES: Final = 128
"""What a map without any costs there, about."""
EXCESS_STEP: Final = 1024
"""Tombstones by which a map exceeds its limit before it looks again for one that may go."""
EXCESS_LOOKS: Final = 4 * EXCESS_STEP
"""Tombstones that it looks at then. Members of all versions have to look at as many, or their
states would differ. It is more than a step: of those that may go more go than come."""
NEWEST: Final = (1 << STAMP_BITS) - 1
"""No stamp is greater."""
Passed: TypeAlias = tuple[bytes, ...]
"""As of `Change.passed`; empty for a change of a client."""


class MapWan:
    """A map's part of WAN replication. It stays when the map has no entry any more."""

    __slots__ = (
        "_shared",
        "ambiguous",
        "cleared",
        "cleared_passed",
        "filter",
        "floor",
        "passed",
        "purged",
        "queues",
        "received",
        "reference",
        "stamps",
        "tombstones",
    )  # fmt: skip

    def __init__(self, floor: int, shared: Shared) -> None:
        """Begin with a map whose entries, if there are any, are as old as the floor.

        Args:
            floor: a stamp.
            shared: counts the bytes, and limits the tombstones.
        """
        self._shared = shared
        self.reference: MapReference | None = None
        self.filter = KeyFilter(None)
        self.floor = floor
        """The stamp of an entry without one: the clock when the map began to be replicated."""
        self.cleared = 0
        """The stamp of the last clear: a change that is not newer is over, whenever it comes."""
        self.cleared_passed: Passed = ()
        self.purged = 0
        """The newest stamp of a tombstone that was purged by time or number."""
        self.ambiguous = 0
        """Entries taken that may be older than a removal whose tombstone was purged so."""
        self.received = Received.NOTHING
        """What other clusters ever sent of the map."""
        self.stamps: dict[str, int] = {}
        """The stamps of entries, by key; an entry that has none here has the floor."""
        self.tombstones: dict[str, int] = {}
        """The stamps of removed keys, in the order of the removals. Those that waited when a purge
        came to them are behind all that there were then."""
        self.passed: dict[str, Passed] = {}
        """The clusters that the last change of a key has passed, while a queue or the policy needs
        them; nothing for a change that came from a client."""
        self.queues: dict[PublisherName, PublisherQueue] = {}
        shared.live_bytes += MAP_BYTES

    # Reads

    def refusal(self, key: str, member: bytes) -> Refused | None:
        """Return why a client's change of the key that the member takes in cannot be stored.

        A change of another cluster is never refused: of two clusters with full queues each would
        wait for the other. It makes the publisher compare.
        """
        for queue in self.queues.values():
            if queue.target.may_refuse:
                refused = queue.refusal(key, member)
                if refused is not None and self.filter.includes(key):
                    return refused
        return None

    def stamp(self, key: str) -> int:
        """Return the stamp of an entry that is there."""
        return self.stamps.get(key, self.floor)

    @property
    def cleared_for_all(self) -> int:
        """The stamp of the last clear, 0 when a client of this cluster made it.

        For a policy by which a change of another cluster overrules those of clients.
        """
        return self.cleared if self.cleared_passed else 0

    def counts_as_ambiguous(self, stamp: int) -> bool:
        """Tell whether an unknown key may have been removed later than at the stamp."""
        return stamp <= self.purged

    # Changes

    def note_received(self, policy: MergePolicy) -> None:
        """Note that another cluster has sent a change that is to be merged by a policy."""
        overrules = policy is MergePolicy.PASS_THROUGH
        self.received = max(self.received, Received.OVERRULING if overrules else Received.CHANGES)

    def put(self, key: str, stamp: int, member: bytes, place: int, passed: Passed = ()) -> None:
        """Note that the entry was put.

        Args:
            key: the entry's.
            stamp: of the change.
            member: 16 bytes, the UUID of the member that took the change in.
            place: of the change in the log, as of `QueuedChange.place`.
            passed: the clusters that the change has passed.
        """
        tombstones = self.tombstones
        if tombstones and tombstones.pop(key, 0):
            self._shared.live_bytes -= STAMP_OVERHEAD_BYTES + len(key)
        if key not in self.stamps:
            self._shared.live_bytes += STAMP_OVERHEAD_BYTES + len(key)
        self.stamps[key] = stamp
        self._publish(key, member, place, passed)

    def remove(self, key: str, stamp: int, member: bytes, place: int, passed: Passed = ()) -> None:
        """Note that the key was removed, though there may have been no entry; as `put`."""
        self._bury(key, stamp)
        self._publish(key, member, place, passed)

    def expire(self, key: str) -> None:
        """Note that the entry's time to live is over: it was removed by the change that put it."""
        self._bury(key, self.stamp(key))

    def forget(self, key: str) -> None:
        """Note that the entry went idle or was evicted, which stays in this cluster."""
        self._take_stamp(key)
        self.passed.pop(key, None)
        for queue in self.queues.values():
            queue.forget(key)

    def clear(self, stamp: int, member: bytes, place: int, passed: Passed = ()) -> None:
        """Note that all that is not newer is gone, as `put`; the caller has removed the entries."""
        self.cleared, self.cleared_passed = stamp, passed
        over = [key for key, at in self.tombstones.items() if at <= stamp]
        self._shared.live_bytes -= _kept_bytes(over)
        for key in over:
            del self.tombstones[key]
        newer = {*self.stamps, *self.tombstones}
        for queue in self.queues.values():
            if self._publishes(passed):
                self._queue_clear(queue, newer, member, place)
            else:
                for key in _queued(queue):
                    if key not in newer:
                        queue.forget(key)
        for key in [key for key in self.passed if key not in newer]:
            del self.passed[key]

    def entry_cleared(self, key: str) -> None:
        """Note that a clear has removed the entry."""
        self._take_stamp(key)

    def entries_cleared(self) -> None:
        """Note that a clear has removed all entries."""
        self._shared.live_bytes -= _kept_bytes(self.stamps)
        self.stamps.clear()

    # Queues

    def acknowledge(self, publisher: PublisherName, member: bytes, place: int) -> None:
        """Take what the target has from the member's queue, all up to a place."""
        queue = self.queues.get(publisher)
        if queue is not None:
            self._release(queue.acknowledge(member, place))

    def drop_queue(self, publisher: PublisherName, member: bytes) -> None:
        """Drop the member's queue: the map needs a sync if anything waited in it."""
        queue = self.queues.get(publisher)
        if queue is not None:
            self._release(queue.drop_queue(member))

    def drop_publisher(self, publisher: PublisherName) -> None:
        """Drop all queues of a publisher that is no more.

        Raises:
            KeyError: the map has no such publisher.
        """
        queue = self.queues.pop(publisher)
        keys = _queued(queue)
        queue.close()
        self._release(keys)

    # Tombstones

    def purge(self, through: int, most: int) -> None:
        """Forget the oldest tombstones up to a stamp, but those that wait in a queue.

        Args:
            through: the stamp.
            most: how many are looked at; 0 looks at all of them, in whatever order.
        """
        if most:
            self._forget_oldest(through, most, most)
            return
        for key in [key for key, stamp in self.tombstones.items() if stamp <= through]:
            if not self._is_queued(key):
                self._forget_tombstone(key)

    def overdue(self, through: int, looks: int) -> bool:
        """Tell whether a purge up to a stamp would come to a tombstone that may go.

        So many are looked at, in the order in which they were made: one that came by WAN with an
        old stamp goes when those before it go.
        """
        for key, stamp in islice(self.tombstones.items(), looks):
            if stamp > through:
                return False
            if not self._is_queued(key):
                return True
        # Behind those that wait there may be others: a purge passes the former.
        waiting = sum(queue.count() for queue in self.queues.values())
        return len(self.tombstones) > max(looks, waiting)

    def is_spent(self, through: int) -> bool:
        """Tell whether this holds nothing of a map without entries that is newer than a stamp."""
        if self.stamps or self.tombstones or max(self.cleared, self.purged) > through:
            return False
        return not any(queue.members() or queue.gaps for queue in self.queues.values())

    def close(self) -> None:
        """Count nothing of this map any more."""
        for publisher in list(self.queues):
            self.drop_publisher(publisher)
        kept_bytes = _kept_bytes(self.stamps) + _kept_bytes(self.tombstones)
        self._shared.live_bytes -= MAP_BYTES + kept_bytes

    # Snapshots

    def load_stamp(self, key: str, stamp: int, passed: Passed) -> None:
        """Add the stamp of an entry."""
        self.stamps[key] = stamp
        self._load(key, passed)

    def load_tombstone(self, key: str, stamp: int, passed: Passed) -> None:
        """Add a tombstone, behind those that were added before."""
        self.tombstones[key] = stamp
        self._load(key, passed)

    def _load(self, key: str, passed: Passed) -> None:
        self._shared.live_bytes += STAMP_OVERHEAD_BYTES + len(key)
        if passed:
            self.passed[key] = passed

    def _publishes(self, passed: Passed) -> bool:
        return not passed or (self.reference is not None and self.reference.republishing)

    def _publish(self, key: str, member: bytes, place: int, passed: Passed) -> None:
        of_key = self.filter
        if (of_key.takes_all or of_key.includes(key)) and (not passed or self._publishes(passed)):
            for queue in self.queues.values():
                queue.queue(key, member, place)
        else:
            for queue in self.queues.values():
                queue.forget(key)
        if passed and self._needs_passed(key):
            self.passed[key] = passed
        elif self.passed:
            self.passed.pop(key, None)

    def _needs_passed(self, key: str) -> bool:
        reference = self.reference
        if self.received is Received.OVERRULING:
            return True
        if reference is not None and reference.policy is MergePolicy.PASS_THROUGH:
            return True
        return self._is_queued(key)

    def _release(self, keys: list[str]) -> None:
        """Forget what only the queues needed to know about keys that were taken from one."""
        if self.passed:
            for key in keys:
                if key in self.passed and not self._needs_passed(key):
                    del self.passed[key]

    def _queue_clear(
        self, queue: PublisherQueue, newer: set[str], member: bytes, place: int
    ) -> None:
        """Queue a clear before the keys that are newer than it."""
        kept = [
            (of, key, at)
            for of, keys in queue.by_member.items()
            for key, at in keys.items()
            if key in newer
        ]
        queue.queue_clear(member, place)
        for of, key, at in kept:
            queue.load(key, of, at)

    def _bury(self, key: str, stamp: int) -> None:
        self._take_stamp(key)
        tombstones = self.tombstones
        if not tombstones.pop(key, 0):
            self._shared.live_bytes += STAMP_OVERHEAD_BYTES + len(key)
        tombstones[key] = stamp
        limit = self._shared.max_tombstones
        excess = len(tombstones) - limit
        if excess > 0 and excess % EXCESS_STEP == 1:
            # While a target is away nearly all of them wait: there is no use in looking at each.
            excess -= sum(queue.count() for queue in self.queues.values())
            if excess > 0:
                self._forget_oldest(NEWEST, EXCESS_LOOKS, excess + limit // 16, spared=key)

    def _take_stamp(self, key: str) -> None:
        if self.stamps.pop(key, 0):
            self._shared.live_bytes -= STAMP_OVERHEAD_BYTES + len(key)

    def _forget_oldest(
        self, through: int, looks: int, most: int, spared: str | None = None
    ) -> None:
        """Forget the oldest tombstones, but those that wait in a queue.

        Args:
            through: the newest stamp of one that goes; behind a newer one nothing is looked at.
            looks: how many are looked at. Those of them that wait go behind all others when
                nothing else ended the search: the next search begins with what this has not met.
            most: how many go.
            spared: a key whose tombstone stays, and all behind it; None without one.
        """
        waiting: list[str] = []
        for key, stamp in list(islice(self.tombstones.items(), looks)):
            if not most or stamp > through or key == spared:
                return
            if self._is_queued(key):
                waiting.append(key)
            else:
                most -= 1
                self._forget_tombstone(key)
        for key in waiting:
            self.tombstones[key] = self.tombstones.pop(key)

    def _forget_tombstone(self, key: str) -> None:
        stamp = self.tombstones.pop(key)
        self.passed.pop(key, None)
        self._shared.live_bytes -= STAMP_OVERHEAD_BYTES + len(key)
        self.purged = max(self.purged, stamp)

    def _is_queued(self, key: str) -> bool:
        return any(queue.has(key) for queue in self.queues.values())


def _kept_bytes(keys: Collection[str]) -> int:
    """Return what the stamps or tombstones of keys count for."""
    return STAMP_OVERHEAD_BYTES * len(keys) + sum(map(len, keys))


def _queued(queue: PublisherQueue) -> list[str]:
    return [key for keys in queue.by_member.values() for key in keys]
