"""The state machine: what maps, queues and the cluster state mean.

Pure and deterministic: two states that were fed the same records are equal, byte for byte in
`dump()`, at every sequence. No clock, no randomness, no I/O; time is the log's timestamps.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine import codec, image
from grid_member.engine.api import ClusterState, Entry, Item, Reason, Refused
from grid_member.engine.operations import (
    ClusterStateChange,
    MapClear,
    MapExpire,
    MapPut,
    MapRemove,
    Operation,
    Outcome,
    QueueClear,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COUNTER_WINDOW: Final = 64
"""Records of one member that may arrive out of order; an older one counts as seen."""
ENTRY_OVERHEAD_BYTES: Final = 32
"""What an entry or item costs in the log beyond its key and value, about."""
EXPIRY_SLACK: Final = 1024
"""Outdated deadlines that are kept before the expiry index is built anew."""
_INDEX_BITS: Final = 16
_WINDOW_MASK: Final = (1 << COUNTER_WINDOW) - 1
_PASSIVE: Final = Refused(Reason.PASSIVE, "the cluster state is PASSIVE: writes are refused")


class MapData:
    """A map's entries, and the deadlines of those that have one."""

    __slots__ = ("deadlines", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.deadlines: dict[str, int] = {}


class QueueData:
    """A queue's items in the order of their identifiers, and those in flight with their taker."""

    __slots__ = ("in_flight", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.in_flight: dict[int, tuple[Item, bytes]] = {}

    def put_back(self, item: Item) -> None:
        """Insert the item at its place in the order, which is near the head."""
        before: list[Item] = []
        while self.items and self.items[0].item_id < item.item_id:
            before.append(self.items.popleft())
        self.items.appendleft(item)
        self.items.extendleft(reversed(before))


class State:
    """Maps, queues and system state of one shard, as of `sequence`."""

    def __init__(self) -> None:
        self.sequence = 0
        self.timestamp_ms = 0
        self.cluster_state = ClusterState.ACTIVE
        self.maps: dict[str, MapData] = {}
        self.queues: dict[str, QueueData] = {}
        self.members: dict[bytes, image.MemberMark] = {}
        self.live_bytes = 0
        """What the live entries and items take in the log, about: the cleaner's measure."""
        self.arrivals: set[str] = set()
        """Queues that got an item; whoever wakes waiting polls empties it. Not replicated."""
        self._expiry: list[tuple[int, str, str]] = []
        self._handlers: dict[type[Operation], Callable[[Any, Record, int], Outcome]] = {
            MapPut: self._map_put,
            MapRemove: self._map_remove,
            MapExpire: self._map_expire,
            MapClear: self._map_clear,
            QueueOffer: self._queue_offer,
            QueueTake: self._queue_take,
            QueueConfirm: self._queue_confirm,
            QueueReturn: self._queue_return,
            QueueClear: self._queue_clear,
            ClusterStateChange: self._cluster_state_change,
        }

    def apply(self, sequence: int, timestamp_ms: int, record: Record) -> list[Outcome] | None:
        """Apply the record and return the outcome of each operation; None when it was seen."""
        self.sequence = sequence
        self.timestamp_ms = max(self.timestamp_ms, timestamp_ms)
        if not self._first_time(record):
            return None
        handlers = self._handlers
        base = sequence << _INDEX_BITS
        return [
            handlers[type(operation)](operation, record, base + index)
            for index, operation in enumerate(record.operations)
        ]

    # Reads

    def entry(self, name: str, key: str, now_ms: int) -> Entry | None:
        """Return the entry unless its deadline has come."""
        found = self.maps.get(name)
        if found is None:
            return None
        entry = found.entries.get(key)
        if found.deadlines and found.deadlines.get(key, now_ms + 1) <= now_ms:
            return None
        return entry

    def has_deadline(self, name: str) -> bool:
        """Tell whether any entry of the map has a deadline, so that reads must ask the clock."""
        found = self.maps.get(name)
        return found is not None and bool(found.deadlines)

    def queue_size(self, name: str) -> int:
        """Count the items that a take could get."""
        queue = self.queues.get(name)
        return 0 if queue is None else len(queue.items)

    def due(self, now_ms: int, limit: int) -> list[MapExpire]:
        """Take up to limit entries that have expired out of the expiry index.

        Whoever proposes their removal puts back with `postpone` what was refused.
        """
        found: list[MapExpire] = []
        while self._expiry and self._expiry[0][0] <= now_ms and len(found) < limit:
            deadline_ms, name, key = heapq.heappop(self._expiry)
            if self._deadline(name, key) == deadline_ms:
                found.append(MapExpire(name, key))
        return found

    def postpone(self, expiry: MapExpire) -> None:
        """Put an entry that `due` returned back into the expiry index."""
        deadline_ms = self._deadline(expiry.name, expiry.key)
        if deadline_ms is not None:
            heapq.heappush(self._expiry, (deadline_ms, expiry.name, expiry.key))

    # Images

    def snapshot(self) -> image.Image:
        """Return an exact image of this sequence; changes that follow do not touch it."""
        return image.Image(
            sequence=self.sequence,
            timestamp_ms=self.timestamp_ms,
            cluster_state=self.cluster_state,
            members=dict(self.members),
            maps={
                name: (found.entries.copy(), found.deadlines.copy())
                for name, found in self.maps.items()
            },
            queues={
                name: (list(queue.items), list(queue.in_flight.values()))
                for name, queue in self.queues.items()
            },
        )

    def load(self, parts: Sequence[image.Part]) -> None:
        """Add parts of an image to this state, which was empty before the first of them."""
        for part in parts:
            match part:
                case image.SystemPart():
                    self.sequence = part.sequence
                    self.timestamp_ms = part.timestamp_ms
                    self.cluster_state = part.cluster_state
                case image.MemberPart():
                    self.members[part.member] = part.mark
                case image.EntryPart():
                    self._store(part.name, part.key, part.entry, part.deadline_ms)
                case image.ItemPart():
                    self._load_item(part)

    def dump(self) -> bytes:
        """Return canonical bytes: equal states have equal bytes."""
        return b"".join(
            codec.encode_part(part) for part in image.parts(self.snapshot(), ordered=True)
        )

    def _load_item(self, part: image.ItemPart) -> None:
        queue = self.queues.setdefault(part.name, QueueData())
        item = Item(part.value, part.content_type, part.name, part.item_id)
        if part.taker is None:
            queue.items.append(item)
        else:
            queue.in_flight[part.item_id] = (item, part.taker)
        self.live_bytes += len(item.value) + ENTRY_OVERHEAD_BYTES

    # Applying

    def _first_time(self, record: Record) -> bool:
        mark = self.members.get(record.member)
        if mark is None or record.incarnation > mark.incarnation:
            self._return_in_flight(record.member)
            seen = image.MemberMark(record.incarnation, record.counter, 1)
        elif record.incarnation < mark.incarnation:
            return False
        elif record.counter > mark.counter:
            distance = min(record.counter - mark.counter, COUNTER_WINDOW)
            window = ((mark.window << distance) | 1) & _WINDOW_MASK
            seen = image.MemberMark(record.incarnation, record.counter, window)
        else:
            bit = 1 << (mark.counter - record.counter)
            if bit > _WINDOW_MASK or mark.window & bit:
                return False
            seen = image.MemberMark(mark.incarnation, mark.counter, mark.window | bit)
        self.members[record.member] = seen
        return True

    def _return_in_flight(self, member: bytes) -> None:
        for name, queue in self.queues.items():
            taken = [item for item, taker in queue.in_flight.values() if taker == member]
            for item in taken:
                del queue.in_flight[item.item_id]
                queue.put_back(item)
            if taken:
                self.arrivals.add(name)

    def _store(self, name: str, key: str, entry: Entry, deadline_ms: int) -> None:
        found = self.maps.get(name)
        if found is None:
            found = self.maps[name] = MapData()
        old = found.entries.get(key)
        if old is None:
            self.live_bytes += len(key) + len(entry.value) + ENTRY_OVERHEAD_BYTES
        else:
            self.live_bytes += len(entry.value) - len(old.value)
        found.entries[key] = entry
        if deadline_ms:
            found.deadlines[key] = deadline_ms
            self._remember_deadline(deadline_ms, name, key)
        elif found.deadlines:
            found.deadlines.pop(key, None)

    def _remember_deadline(self, deadline_ms: int, name: str, key: str) -> None:
        heapq.heappush(self._expiry, (deadline_ms, name, key))
        if len(self._expiry) > EXPIRY_SLACK and not len(self._expiry) % EXPIRY_SLACK:
            live = sum(len(found.deadlines) for found in self.maps.values())
            if len(self._expiry) > 2 * live + EXPIRY_SLACK:
                self._expiry = [
                    (deadline, map_name, map_key)
                    for map_name, found in self.maps.items()
                    for map_key, deadline in found.deadlines.items()
                ]
                heapq.heapify(self._expiry)

    def _deadline(self, name: str, key: str) -> int | None:
        found = self.maps.get(name)
        return None if found is None else found.deadlines.get(key)

    def _drop(self, found: MapData, name: str, key: str) -> None:
        entry = found.entries.pop(key, None)
        if entry is None:
            return
        found.deadlines.pop(key, None)
        self.live_bytes -= len(key) + len(entry.value) + ENTRY_OVERHEAD_BYTES
        if not found.entries:
            del self.maps[name]

    def _map_put(self, operation: MapPut, record: Record, place: int) -> Outcome:
        if self.cluster_state is ClusterState.PASSIVE:
            return _PASSIVE
        name, key, entry, ttl_ms = operation
        self._store(name, key, entry, self.timestamp_ms + ttl_ms if ttl_ms else 0)
        return None

    def _map_remove(self, operation: MapRemove, record: Record, place: int) -> Outcome:
        if self.cluster_state is ClusterState.PASSIVE:
            return _PASSIVE
        found = self.maps.get(operation.name)
        if found is not None:
            self._drop(found, operation.name, operation.key)
        return None

    def _map_expire(self, operation: MapExpire, record: Record, place: int) -> Outcome:
        deadline_ms = self._deadline(operation.name, operation.key)
        if deadline_ms is not None and deadline_ms <= self.timestamp_ms:
            self._drop(self.maps[operation.name], operation.name, operation.key)
        return None

    def _map_clear(self, operation: MapClear, record: Record, place: int) -> Outcome:
        if self.cluster_state is ClusterState.PASSIVE:
            return _PASSIVE
        found = self.maps.pop(operation.name, None)
        if found is not None:
            self.live_bytes -= sum(
                len(key) + len(entry.value) + ENTRY_OVERHEAD_BYTES
                for key, entry in found.entries.items()
            )
        return None

    def _queue_offer(self, operation: QueueOffer, record: Record, place: int) -> Outcome:
        if self.cluster_state is ClusterState.PASSIVE:
            return _PASSIVE
        name, value, content_type, max_size = operation
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = QueueData()
        if len(queue.items) + len(queue.in_flight) >= max_size:
            return False
        queue.items.append(Item(value, content_type, name, place))
        self.live_bytes += len(value) + ENTRY_OVERHEAD_BYTES
        self.arrivals.add(name)
        return True

    def _queue_take(self, operation: QueueTake, record: Record, place: int) -> Outcome:
        if self.cluster_state is ClusterState.PASSIVE:
            return _PASSIVE
        queue = self.queues.get(operation.name)
        if queue is None or not queue.items:
            return None
        item = queue.items.popleft()
        queue.in_flight[item.item_id] = (item, record.member)
        return item

    def _queue_confirm(self, operation: QueueConfirm, record: Record, place: int) -> Outcome:
        item = self._landed(operation.name, operation.item_id)
        if item is not None:
            self.live_bytes -= len(item.value) + ENTRY_OVERHEAD_BYTES
            self._forget_if_empty(operation.name)
        return None

    def _queue_return(self, operation: QueueReturn, record: Record, place: int) -> Outcome:
        item = self._landed(operation.name, operation.item_id)
        if item is not None:
            self.queues[operation.name].put_back(item)
            self.arrivals.add(operation.name)
        return None

    def _landed(self, name: str, item_id: int) -> Item | None:
        queue = self.queues.get(name)
        found = None if queue is None else queue.in_flight.pop(item_id, None)
        return None if found is None else found[0]

    def _queue_clear(self, operation: QueueClear, record: Record, place: int) -> Outcome:
        queue = self.queues.pop(operation.name, None)
        if queue is not None:
            gone = [*queue.items, *(item for item, _ in queue.in_flight.values())]
            self.live_bytes -= sum(len(item.value) + ENTRY_OVERHEAD_BYTES for item in gone)
        return None

    def _forget_if_empty(self, name: str) -> None:
        queue = self.queues[name]
        if not queue.items and not queue.in_flight:
            del self.queues[name]

    def _cluster_state_change(
        self, operation: ClusterStateChange, record: Record, place: int
    ) -> Outcome:
        changed = self.cluster_state is not operation.state
        self.cluster_state = operation.state
        return changed
