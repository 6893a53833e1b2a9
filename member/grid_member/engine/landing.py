"""What becomes of polled items: each is confirmed or returned, however often the log refuses."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.api import Item, Refused
from grid_member.engine.operations import QueueConfirm, QueueReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.lane import Lane

LANDING_RETRY_S: Final = 0.5
"""Seconds until a confirm or return that the log did not take is sent again."""
DRAIN_TIMEOUT_S: Final = 5.0
"""Seconds that a stop waits for polled items to be confirmed or returned."""

Landing: TypeAlias = QueueConfirm | QueueReturn


class Landings:
    """The items that polls of this member have and that are not landed yet."""

    def __init__(self, lane_of: Callable[[str], Lane | None]) -> None:
        """Begin with none.

        Args:
            lane_of: the lane of the queue called so; None when it is not configured any more.
        """
        self._lane_of = lane_of
        self._items: set[tuple[str, int, int]] = set()
        self._drained: asyncio.Future[None] | None = None
        self._over = False

    def taken(self, item: Item) -> None:
        """Expect the item to be confirmed or returned."""
        self._items.add((item.queue, item.item_id, item.take_id))

    def land(self, operation: Landing) -> None:
        """Send the operation until the log has taken it, or until `drain` is over."""
        if self._over:
            return
        lane = self._lane_of(operation.name)
        if lane is None:
            self._landed(operation)  # the queue is gone, and what was in it
            return

        def answer(outcome: Refused | None) -> None:
            if isinstance(outcome, Refused) and not self._over:
                asyncio.get_running_loop().call_later(LANDING_RETRY_S, self.land, operation)
                return
            self._landed(operation)

        lane.propose(operation, answer, 0, always=True)

    def _landed(self, operation: Landing) -> None:
        self._items.discard(operation)  # which is equal to its fields
        if self._drained is not None and not self._items and not self._drained.done():
            self._drained.set_result(None)

    async def drain(self) -> None:
        """Wait for whoever is still writing an item out; nothing is sent afterwards."""
        if self._items:
            self._drained = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained, DRAIN_TIMEOUT_S)
        self._over = True
