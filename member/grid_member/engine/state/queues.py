"""The queues of a state machine: items in order, and those in flight."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grid_member.engine.api import Item
from grid_member.engine.state.maps import ENTRY_OVERHEAD_BYTES

if TYPE_CHECKING:
    from grid_member.engine.state.operations import (
        QueueConfirm,
        QueueOffer,
        QueueReturn,
        QueueTake,
    )
    from grid_member.engine.state.snapshot import ItemPart
    from grid_member.engine.state.stored import InFlightItem, QueuedItem


class QueueData:
    """A queue's items in the order of their identifiers, and those in flight."""

    __slots__ = ("in_flight", "items", "size_bytes")

    def __init__(self) -> None:
        self.items: deque[QueuedItem] = deque()
        self.in_flight: dict[int, InFlightItem] = {}
        self.size_bytes = 0
        """Of all values, those in flight too."""

    def put_back(self, item: QueuedItem) -> None:
        """Insert the item at its place in the order, which is near the head."""
        before: list[QueuedItem] = []
        while self.items and self.items[0][0] < item[0]:
            before.append(self.items.popleft())
        self.items.appendleft(item)
        self.items.extendleft(reversed(before))

    def remove_in_flight(self, item_id: int, meant_id: int, member: bytes) -> QueuedItem | None:
        """Take out an item in flight by the take that is meant, not by another member's or a later.

        The end of a delivery is sent again when nobody can tell what became of it.
        """
        found = self.in_flight.get(item_id)
        if found is None:
            return None
        item, taker, take_id = found
        if taker != member or (meant_id != take_id and meant_id):
            return None
        del self.in_flight[item_id]
        return item


class Queues:
    """The queues by name; there is none without an item."""

    def __init__(self) -> None:
        self.by_name: dict[str, QueueData] = {}
        self.live_bytes = 0
        self.arrivals: set[str] = set()
        """Queues that got an item; whoever wakes waiting polls empties it. Not replicated."""

    def size(self, name: str) -> int:
        """Count the items that a take could get."""
        queue = self.by_name.get(name)
        return 0 if queue is None else len(queue.items)

    def takers(self) -> set[bytes]:
        """Return the members that have items in flight."""
        deliveries = (queue.in_flight for queue in self.by_name.values() if queue.in_flight)
        return {taker for items in deliveries for _, taker, _ in items.values()}

    def snapshot(self) -> dict[str, tuple[list[QueuedItem], list[InFlightItem]]]:
        """Return copies of everything that a snapshot keeps."""
        return {
            name: (list(queue.items), list(queue.in_flight.values()))
            for name, queue in self.by_name.items()
        }

    def load(self, part: ItemPart) -> None:
        """Add an item of a snapshot; those of one queue come in order."""
        queue = self.by_name.setdefault(part.name, QueueData())
        item = (part.item_id, part.value, part.content_type)
        if part.taker is None:
            queue.items.append(item)
        else:
            queue.in_flight[part.item_id] = (item, part.taker, part.take_id)
        queue.size_bytes += len(part.value)
        self.live_bytes += len(part.value) + ENTRY_OVERHEAD_BYTES

    def return_in_flight(self, member: bytes) -> None:
        """Put back whatever the member took: whoever it was for is gone."""
        for name, queue in self.by_name.items():
            taken = [item for item, taker, _ in queue.in_flight.values() if taker == member]
            for item in taken:
                del queue.in_flight[item[0]]
                queue.put_back(item)
            if taken:
                self.arrivals.add(name)

    # Applying: operation, member, place, now_ms

    def offer(self, operation: QueueOffer, member: bytes, place: int, now_ms: int) -> bool:
        """Append an item, named by its place in the log; False when the queue is full."""
        name, value, content_type, max_size = operation
        queue = self.by_name.get(name)
        held = 0 if queue is None else len(queue.items) + len(queue.in_flight)
        if held >= max_size:
            return False
        if queue is None:
            queue = self.by_name[name] = QueueData()
        queue.items.append((place, value, content_type))
        queue.size_bytes += len(value)
        self.live_bytes += len(value) + ENTRY_OVERHEAD_BYTES
        self.arrivals.add(name)
        return True

    def take(self, operation: QueueTake, member: bytes, place: int, now_ms: int) -> Item | None:
        """Move the head into flight for the member, named by the place of the take in the log."""
        (name,) = operation
        queue = self.by_name.get(name)
        if queue is None or not queue.items:
            return None
        item = queue.items.popleft()
        item_id, value, content_type = item
        queue.in_flight[item_id] = (item, member, place)
        return Item(value, content_type, name, item_id, place)

    def confirm(self, operation: QueueConfirm, member: bytes, place: int, now_ms: int) -> None:
        """Forget an item that the member took."""
        name, item_id, take_id = operation
        queue = self.by_name.get(name)
        item = None if queue is None else queue.remove_in_flight(item_id, take_id, member)
        if queue is not None and item is not None:
            length = len(item[1])
            self.live_bytes -= length + ENTRY_OVERHEAD_BYTES
            queue.size_bytes -= length
            if not queue.items and not queue.in_flight:
                del self.by_name[name]

    def give_back(self, operation: QueueReturn, member: bytes, place: int, now_ms: int) -> None:
        """Put an item that the member took back where it stood."""
        name, item_id, take_id = operation
        queue = self.by_name.get(name)
        item = None if queue is None else queue.remove_in_flight(item_id, take_id, member)
        if queue is not None and item is not None:
            queue.put_back(item)
            self.arrivals.add(name)
