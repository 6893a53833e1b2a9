"""An event loop whose time passes at once whenever nothing else is to be done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Goes to the next timer instead of waiting for it; threads and sockets are not for it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        super().__init__()

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready and scheduled:
            self.now_s = max(self.now_s, scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


def play(scene: Coroutine[Any, Any, T]) -> T:
    """Run a scene in virtual time and return its outcome."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scene)
