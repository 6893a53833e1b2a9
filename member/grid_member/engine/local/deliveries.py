"""What becomes of polled items: each is confirmed or returned, however often the log refuses."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.state.operations import QueueConfirm, QueueReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.api import Item, Refused
    from grid_member.engine.shard.shard import Shard

DELIVERY_RETRY_S: Final = 0.5
"""Seconds until confirms or a return that the log did not take are sent again."""
DRAIN_TIMEOUT_S: Final = 5.0
"""Seconds that a stop waits for polled items to be confirmed or returned."""

DeliveryEnd: TypeAlias = QueueConfirm | QueueReturn


class Deliveries:
    """The items that polls of this member have and that are neither confirmed nor returned yet."""

    def __init__(self, shard_of: Callable[[str], Shard | None]) -> None:
        """Begin with none; shard_of returns None for a queue that is not configured any more."""
        self._shard_of = shard_of
        self._items: set[tuple[str, int, int]] = set()
        self.confirms: dict[str, list[DeliveryEnd]] = {}
        """Those of this tick, by queue, until `send`."""
        self._no_items: asyncio.Future[None] | None = None
        self._over = False

    def expect(self, item: Item) -> None:
        """Expect the item to be confirmed or returned."""
        self._items.add((item.queue, item.item_id, item.take_id))

    def confirm(self, operation: QueueConfirm) -> None:
        """Send the operation with the others of this tick.

        In the next one, which mostly brings the next takes: all go into one record.
        """
        confirms, name = self.confirms, operation[0]
        if name in confirms:
            confirms[name].append(operation)
            return
        if not confirms:
            asyncio.get_running_loop().call_soon(self.send)
        confirms[name] = [operation]

    def give_back(self, operation: QueueReturn) -> None:
        """Send the operation."""
        self._end([operation])

    def send(self) -> None:
        """Send the confirms now: what they make room for may come next."""
        confirms, self.confirms = self.confirms, {}
        for operations in confirms.values():
            self._end(operations)

    def _end(self, operations: Sequence[DeliveryEnd]) -> None:
        """Send operations on one queue until the log has taken them, or until `drain` is over."""
        if self._over:
            return
        shard = self._shard_of(operations[0].name)
        if shard is None:
            self._forget(operations)  # the queue is gone, and what was in it
        else:
            shard.propose_always(operations, _SentEnds(self, operations).answer)

    def note_outcome(self, operations: Sequence[DeliveryEnd], *, refused: bool) -> None:
        """Hear what became of operations that were sent together.

        All are sent again when any was refused: nothing happens to those that the log has.
        """
        if refused and not self._over:
            asyncio.get_running_loop().call_later(DELIVERY_RETRY_S, self._end, operations)
        else:
            self._forget(operations)

    def _forget(self, operations: Sequence[DeliveryEnd]) -> None:
        self._items.difference_update(operations)  # which are equal to their fields
        if self._no_items is not None and not self._items and not self._no_items.done():
            self._no_items.set_result(None)

    async def drain(self) -> None:
        """Wait for whoever is still writing an item out; nothing is sent afterwards."""
        self.send()
        if self._items:
            self._no_items = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._no_items, DRAIN_TIMEOUT_S)
        self._over = True


class _SentEnds:
    """Operations that were sent together; `answer` takes the outcome of each."""

    __slots__ = ("_deliveries", "_open_count", "_operations", "_refused")

    def __init__(self, deliveries: Deliveries, operations: Sequence[DeliveryEnd]) -> None:
        self._deliveries = deliveries
        self._operations = operations
        self._open_count = len(operations)
        self._refused = False

    def answer(self, outcome: Refused | None) -> None:
        if outcome is not None:
            self._refused = True
        self._open_count -= 1
        if not self._open_count:
            self._deliveries.note_outcome(self._operations, refused=self._refused)
