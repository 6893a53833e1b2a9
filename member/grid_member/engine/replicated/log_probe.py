"""Asks a log that confirms nothing whether it does again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.replicated.shared_log import SharedLog

PROBE_S: Final = 1.0
"""How often that is asked."""


class LogProbe:
    """Asks for as long as the log refuses and may yet take records."""

    def __init__(self, log: SharedLog, ask: Callable[[], None]) -> None:
        """Ask nothing yet; ask sends a record that nobody waits for."""
        self._log = log
        self._ask = ask
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def begin(self) -> None:
        """Ask from now on, unless that goes on already."""
        if self._timer is None and not self._ended:
            self._timer = asyncio.get_running_loop().call_later(PROBE_S, self._look)

    def end(self) -> None:
        """Ask no more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._log.refusal is None or self._log.damaged:
            return
        if not self._log.crowded:
            self._ask()
        self.begin()
