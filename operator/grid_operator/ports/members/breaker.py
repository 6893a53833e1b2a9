"""Keeps members that hang from eating the time of the work queue.

Per member process: after some timeouts in a row it is left alone for a growing, jittered pause,
then tried once. One answer of whatever kind ends that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

TRIPPED_AFTER: Final = 3
"""Timeouts in a row."""
PAUSE_FIRST_S: Final = 4.0
PAUSE_MAX_S: Final = 30.0
PAUSE_JITTER: Final = 0.3
"""A pause is shortened by a random part of up to this, so that members that hang together are not
asked together."""
MAX_PROCESSES: Final = 10_000
"""Processes with timeouts that are remembered; beyond it the oldest are forgotten."""


@dataclass(slots=True)
class _Silence:
    timeouts: int = 0
    asked_again: float = 0.0


class Breaker:
    """Tells which member processes may be asked now."""

    def __init__(self, now: Callable[[], float], rng: random.Random) -> None:
        """Know of no silence.

        Args:
            now: A monotonic clock, in seconds.
            rng: For the jitter.
        """
        self._now = now
        self._rng = rng
        self._silent: dict[str, _Silence] = {}

    def allows(self, process: str) -> bool:
        """Return whether the process may be asked now."""
        silence = self._silent.get(process)
        return silence is None or self._now() >= silence.asked_again

    def answered(self, process: str) -> None:
        """Note that the process gave any answer, or refused a connection."""
        self._silent.pop(process, None)

    def timed_out(self, process: str) -> None:
        """Note that the process was asked and said nothing complete in time."""
        silence = self._silent.pop(process, _Silence())
        silence.timeouts += 1
        excess = silence.timeouts - TRIPPED_AFTER
        if excess >= 0:
            pause_s = min(PAUSE_FIRST_S * 2.0 ** min(excess, 16), PAUSE_MAX_S)
            silence.asked_again = self._now() + pause_s * self._rng.uniform(1 - PAUSE_JITTER, 1)
        if len(self._silent) >= MAX_PROCESSES:
            del self._silent[next(iter(self._silent))]
        self._silent[process] = silence
