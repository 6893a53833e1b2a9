"""Whether the clock that a stream has its times of goes on as evenly as this member's own does.

The server that leads a stream gives each record its time, by the clock of its machine. A record of
this member was stored at some moment between its sending and its return: so it tells how far that
clock is ahead of this member's own, however late it is fed. Two that tell different things show
that the clock was set, or that another machine leads with one that is set otherwise.
"""

from __future__ import annotations

from typing import Final

JUMP_S: Final = 10
"""What is more than that is a jump. What clocks drift, and are set by to mend it, is far less."""
SLEPT_S: Final = 1.0
"""A machine that slept for longer has clocks that say other things of the same time."""


class ClockSkew:
    """What own records that came back tell of the clock of a stream."""

    def __init__(self) -> None:
        self._known = False
        self._least_s = self._most_s = 0.0
        """How far the stream's clock is ahead of this member's, as the last record told that did so
        exactly enough."""
        self._slept_s = self._woken_s = 0.0
        """As the last record came back, and when it was found that this had grown."""

    def jump_s(self, stored_ms: int, sent_s: float, now_s: float, slept_s: float) -> int:
        """Return how many seconds the clock has jumped ahead, or, below 0, back; 0: not at all.

        Args:
            stored_ms: the time of a record of this member, by the stream's clock.
            sent_s: when it was sent first, by a clock of this member that only goes forward.
            now_s: the time by that clock, when the record has come back.
            slept_s: how much that clock has missed, as it does while the machine sleeps.
        """
        if abs(slept_s - self._slept_s) >= SLEPT_S:
            self._known, self._slept_s, self._woken_s = False, slept_s, now_s
        if sent_s < self._woken_s:
            return 0  # nobody knows whether it was stored before the machine slept or after
        least_s, most_s = stored_ms / 1000 - now_s, stored_ms / 1000 - sent_s
        ahead_s, back_s = least_s - self._most_s, self._least_s - most_s
        jumped = self._known and max(ahead_s, back_s) > JUMP_S
        if jumped or not self._known or most_s - least_s < JUMP_S:
            self._known, self._least_s, self._most_s = True, least_s, most_s
        if not jumped:
            return 0
        return round(ahead_s) if ahead_s > 0 else -round(back_s)
