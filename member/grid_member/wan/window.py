"""How many batches are under way at once.

A target that answers each batch after as long as before is given one more; one whose answers take
longer has enough to do. A refusal for want of room, or no answer at all, halves the number.
"""

from __future__ import annotations

from typing import Final

MOST_ADAPTED: Final = 8
"""Batches at once that an adapted window allows."""
LONGER: Final = 1.5
"""Round trips count as longer from so many times the best mean on."""
_FORGETTING: Final = 1.05
"""The best mean grows so much with each look: a line that became longer becomes the measure."""
ADAPTIVE: Final = -1
"""The value of `max-concurrent-invocations` that adapts the number to the target."""


class Window:
    """The number of batches that may be under way, fixed or adapted to the target."""

    def __init__(self, configured: int) -> None:
        """Begin with so many batches at once, or with one that may become more: `ADAPTIVE`."""
        self._adaptive = configured == ADAPTIVE
        self.size = 1 if self._adaptive else configured
        self._best_s = 0.0
        self._sum_s = 0.0
        self._count = 0

    def note_answer(self, round_trip_s: float, *, full: bool) -> None:
        """Count an answered batch.

        Args:
            round_trip_s: from the begin of sending to the answer, seconds.
            full: whether as many batches as allowed were under way; only then the time tells
                whether one more is worth it.
        """
        if not self._adaptive or not full:
            return
        self._sum_s += round_trip_s
        self._count += 1
        if self._count <= self.size:
            return
        mean_s, self._sum_s, self._count = self._sum_s / self._count, 0.0, 0
        if not self._best_s or mean_s < self._best_s:
            self._best_s = mean_s
        if mean_s <= self._best_s * LONGER:
            self.size = min(MOST_ADAPTED, self.size + 1)
        else:
            self.size = max(1, self.size - 1)
        self._best_s *= _FORGETTING

    def note_overload(self) -> None:
        """Halve it after a refusal for want of room, or a time-out."""
        if self._adaptive:
            self.size = max(1, self.size // 2)
            self._sum_s, self._count = 0.0, 0
