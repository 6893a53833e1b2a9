"""Waiting for something to become true of the system store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    predicate: Callable[[], bool]
    until_s: float | None
    outcome: asyncio.Future[bool]


class Conditions:
    """What is waited for. It is looked at with every change, and now and then for the time."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """Take a clock that only goes forward."""
        self._clock_s = clock_s
        self._waiters: list[_Waiter] = []
        self.ended = False
        """Whether nothing is waited for any more."""

    async def until(self, predicate: Callable[[], bool], patience_s: float | None = None) -> bool:
        """Return when the predicate is true, or False when the time is over; None is no limit."""
        if predicate():
            return True
        if self.ended or (patience_s is not None and patience_s <= 0):
            return False
        until_s = None if patience_s is None else self._clock_s() + patience_s
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(predicate, until_s, outcome)
        self._waiters.append(waiter)
        try:
            return await outcome
        finally:
            self._waiters.remove(waiter)

    def look(self) -> None:
        """Let those go on whose time it is."""
        now_s = self._clock_s()
        for waiter in list(self._waiters):
            if waiter.outcome.done():
                continue
            if waiter.predicate():
                waiter.outcome.set_result(True)
            elif waiter.until_s is not None and now_s >= waiter.until_s:
                waiter.outcome.set_result(False)

    def end(self) -> None:
        """Wait for nothing any more: whatever is not true now is told not to become so."""
        self.ended = True
        for waiter in self._waiters:
            if not waiter.outcome.done():
                waiter.outcome.set_result(False)
