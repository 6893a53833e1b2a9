"""Waits for what a member would lose with its queues, which end with it.

keys leave, or a batch is under way ──▶ wait, up to a limit
neither for a second ─────────────────▶ give up: the target is away, or the publisher paused
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S: Final = 15.0
"""How long a stop waits at most. The other graces of a stop, 37 s, come behind it, and Kubernetes
gives a pod 60 s."""
IDLE_S: Final = 1.0
"""How long it waits while nothing is under way and no queue becomes shorter."""
LOOK_S: Final = 0.02
_log: Final = logging.getLogger("grid.wan")


async def drain(
    left: Callable[[], int], under_way: Callable[[], bool], clock: Callable[[], float]
) -> int:
    """Wait while keys are sent; return how many are left, and log that.

    Args:
        left: returns how many keys wait that the member would lose.
        under_way: tells whether a target has a batch to answer, or has asked for a rest.
        clock: seconds.
    """
    keys = left()
    moved_s = clock()
    deadline_s = moved_s + LIMIT_S
    while keys and clock() < min(deadline_s, moved_s + IDLE_S):
        await asyncio.sleep(LOOK_S)
        now = left()
        if now < keys or under_way():
            moved_s = clock()
        keys = min(keys, now)
    keys = left()
    if keys:
        event(_log, logging.WARNING, "stopping with changes that were not sent", keys=keys)
    return keys
