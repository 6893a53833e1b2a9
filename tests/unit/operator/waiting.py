"""Waits for conditions, never for times."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LOOK_PERIOD_S = 0.02


async def eventually(condition: Callable[[], Awaitable[bool]], patience_s: float = 30.0) -> None:
    """Return when the condition holds; fail when it does not in time."""
    async with asyncio.timeout(patience_s):
        while not await condition():  # noqa: ASYNC110 - the condition is any
            await asyncio.sleep(LOOK_PERIOD_S)
