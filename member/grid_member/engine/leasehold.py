"""Until when the others leave a member what it takes out of queues.

They count from when they hear of a sign of life, this member from when it gave that sign: by its
own clock it stops first. So nothing is handed out that somebody else may have by now, however long
this process stood still, and wherever in between.
"""

from __future__ import annotations

import math
import time


class Leasehold:
    """As one lane goes by it. Times are those of `time.monotonic`."""

    def __init__(self) -> None:
        """Hold for ever: from an engine by itself nobody takes anything."""
        self.until_s = math.inf
        """The others leave this member until then what it took in this life."""
        self._had = False

    @property
    def holds(self) -> bool:
        """Whether the others do now."""
        return time.monotonic() < self.until_s

    def resumes(self, until_s: float) -> bool:
        """Tell whether it would hold again behind a time in which it did not."""
        return self._had and not self.holds and time.monotonic() < until_s

    def hold(self, until_s: float) -> None:
        """Hold until then; what is over does not hold."""
        self.until_s = until_s
        self._had = self._had or self.holds

    def end(self) -> None:
        """Hold no more: the life is over."""
        if self._had:
            self.until_s = -math.inf
