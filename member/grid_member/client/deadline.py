"""Waiting until members answer as wanted, within the time that the command line allows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.client.errors import OverdueError, PassingError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PERIOD_S: Final = 1.0
"""Between two looks at members."""


class Deadline:
    """The time that one run of the command has."""

    def __init__(
        self,
        timeout_s: float,
        tell: Callable[[str], None],
        *,
        clock_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to count.

        Args:
            timeout_s: For all waits of the run together.
            tell: Is given what is waited for, each time that it changes.
            clock_s: Only goes forward.
            pause: Waits for so many seconds.
        """
        self._timeout_s = timeout_s
        self._tell = tell
        self._clock_s = clock_s
        self._pause = pause
        self._until_s = clock_s() + timeout_s
        self._last_text = ""

    @property
    def left_s(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._until_s - self._clock_s())

    def until(self, ask: Callable[[], T]) -> T:
        """Ask until it raises no `PassingError`, and return the answer. It is asked at least once.

        Raises:
            OverdueError: The time is over; the message says what was waited for.
        """
        while True:
            try:
                return ask()
            except PassingError as error:
                text = str(error)
            if text != self._last_text:
                self._tell(text)
                self._last_text = text
            if self.left_s <= 0:
                raise OverdueError(f"not within {self._timeout_s:g} s: {text}")
            self._pause(min(PERIOD_S, self.left_s))
