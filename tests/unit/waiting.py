"""Waits for conditions, never for times."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
PATIENCE_S = 30.0
ANSWER_S = 60.0
"""For what somebody else is asked for, who may have a leader to elect first."""
SOON_S = 0.002
"""Between two looks at what costs nothing to look at."""
LOOK_PERIOD_S = 0.02


async def until(holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Return when it holds; fail when it does not in time."""
    async with asyncio.timeout(patience_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(SOON_S)


async def eventually(holds: Callable[[], Awaitable[T | None]], patience_s: float = ANSWER_S) -> T:
    """Ask until it holds, and return the answer; fail when it does not in time."""
    async with asyncio.timeout(patience_s):
        while not (found := await holds()):  # noqa: ASYNC110 - it is asked for
            await asyncio.sleep(LOOK_PERIOD_S)
    return found
