"""The outcomes of engine operations, to be awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done, Refused

T = TypeVar("T")


def start(begin: Callable[[Done[T]], object]) -> asyncio.Future[T | Refused]:
    """Begin an engine operation now; return the future of what its callback is given."""
    future: asyncio.Future[T | Refused] = asyncio.get_running_loop().create_future()

    def done(result: T | Refused) -> None:
        # Whoever waited may have been cancelled; the operation went on without it.
        if not future.done():
            future.set_result(result)

    begin(done)
    return future
