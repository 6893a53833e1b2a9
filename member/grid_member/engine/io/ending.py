"""Work that is given up when its end is wanted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

STOPPING: Final = "the member is stopping"
T = TypeVar("T")


async def do_unless_ended(ended: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Do the work; give it up when the member is to stop.

    Raises:
        EngineError: it was given up.
    """
    working = asyncio.ensure_future(work)
    ending = asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise EngineError(STOPPING)
        working.result()
    except BaseException:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        raise
    finally:
        ending.cancel()


async def do_or_undo(work: Awaitable[T], undo: Callable[[], Awaitable[None]]) -> T:
    """Do the work; undo it when it fails."""
    try:
        return await work
    except BaseException:
        await undo()
        raise


async def do_and_end(work: Awaitable[T], end: Callable[[], Awaitable[None]]) -> T:
    """Do the work and end it, whatever becomes of it."""
    try:
        return await work
    finally:
        await end()


async def end_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel the tasks that there are, and wait until they have ended, whatever they raise."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
