"""The thread that writes a log, waited for without another thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Writer:
    """Does the work on a thread that keeps no process alive.

    A disk that answers nothing holds the thread for ever; whoever waits for it on the event loop
    may give up, and the program may end.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        """Begin. For the thread of a running event loop."""
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def await_end(self) -> None:
        """Return when the work is over."""
        await self._over.wait()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            # A closed loop has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)
