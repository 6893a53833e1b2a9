"""Calls that go on to their end when the client leaves in the middle.

A management call changes several things one after another; cut off between two of them it would
leave the member in a state that nobody asked for. A client that leaves does not learn of the end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import failure

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from grid_member.http.wire.answers import Answer

_log: Final = logging.getLogger("grid.http")


class BackgroundCalls:
    """The calls under way, each in a task that ends by itself."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Answer]] = set()

    async def run(self, work: Coroutine[None, None, Answer]) -> Answer:
        """Return the answer of the work, which goes on when who waits for it is cancelled."""
        task = asyncio.create_task(work)
        # The event loop itself may forget a task that nobody else holds.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_drop_answer)
            raise


def _drop_answer(task: asyncio.Task[Answer]) -> None:
    if task.cancelled():
        return
    problem = task.exception()
    if problem is not None:
        failure(_log, "request failed", problem)
        return
    lost = task.result().on_loss
    if lost is not None:
        lost()
