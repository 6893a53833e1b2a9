"""What becomes of polled items: each is confirmed or returned, however often the log refuses."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.operations import QueueConfirm, QueueReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Refused
    from grid_member.engine.lane import Lane

LANDING_RETRY_S: Final = 0.5
"""Seconds until a confirm or return that the log did not take is sent again."""
DRAIN_TIMEOUT_S: Final = 5.0
"""Seconds that a stop waits for polled items to be confirmed or returned."""

Landing: TypeAlias = QueueConfirm | QueueReturn


class Landings:
    """Lands the items that polls of this member have."""

    def __init__(
        self, lane_of: Callable[[str], Lane | None], in_flight: Callable[[], bool]
    ) -> None:
        """Begin with none.

        Args:
            lane_of: the lane of the queue called so; None when it is not configured any more.
            in_flight: whether this member has items that are not landed.
        """
        self._lane_of = lane_of
        self._in_flight = in_flight
        self._drained: asyncio.Future[None] | None = None
        self._over = False

    def land(self, operation: Landing) -> None:
        """Send the operation until the log has taken it, or until `drain` is over."""
        lane = self._lane_of(operation.name)
        if lane is None or self._over:
            return

        def answer(outcome: Refused | None) -> None:
            if outcome is not None and not self._over:
                asyncio.get_running_loop().call_later(LANDING_RETRY_S, self.land, operation)
            elif self._drained is not None and not self._drained.done() and not self._in_flight():
                self._drained.set_result(None)

        lane.propose(operation, answer, 0, always=True)

    async def drain(self) -> None:
        """Wait for whoever is still writing an item out; nothing is sent afterwards."""
        if self._in_flight():
            self._drained = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained, DRAIN_TIMEOUT_S)
        self._over = True
