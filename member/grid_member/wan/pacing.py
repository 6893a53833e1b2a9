"""Work in slices that leaves the event loop to requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SLICE: Final = 200
"""Changes that are merged in one turn of the loop."""
READ_SLICE: Final = 500
"""Changes that are read from a queue and encoded in one turn, which costs less."""
BUSY_TURN_S: Final = 0.0005
"""A turn of the loop that takes longer has requests in it."""
PAUSES: Final = 3
"""While requests wait a pause is so many times as long as the work before: a quarter is for it."""


class Pacer:
    """Gives up the loop between two slices, and stays away while others need it."""

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take a clock and a way to sleep, both in seconds."""
        self.clock = clock
        """Seconds."""
        self._sleep = sleep
        self._began_s = 0.0

    def another(self) -> Pacer:
        """Return one for work that goes on beside."""
        return Pacer(self.clock, self._sleep)

    def begin(self) -> None:
        """Begin a slice."""
        self._began_s = self.clock()

    async def turn(self) -> None:
        """Let others run, for longer if there are any, and begin the next slice."""
        ended_s = self.clock()
        # Batches share this: another one may begin a slice while this one gives up the loop.
        worked_s = ended_s - self._began_s
        await self._sleep(0)
        if self.clock() - ended_s > BUSY_TURN_S:
            await self._sleep(PAUSES * worked_s)
        self._began_s = self.clock()
