"""Until when the others leave a member what it takes out of queues.

They count from when they hear of a heartbeat, this member from when it sent it: by its
own clock it stops first. So an item is handed out only as long as nobody else can have it.
"""

from __future__ import annotations

import math
import time
from typing import Final

from grid_member.engine.api import Reason, Refused

LATE: Final = Refused(
    Reason.UNAVAILABLE,
    "the others did not hear of this member for some seconds: items stay in their queues",
)


def steady_s() -> float:
    """Return seconds that never go back, and that pass while the machine sleeps, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leasehold:
    """As one shard goes by it. Times are those of `steady_s`."""

    def __init__(self) -> None:
        """Hold for ever: from an engine by itself nobody takes anything."""
        self.until_s = math.inf
        """What was taken in this incarnation is this member's until then; -inf: nothing was."""
        self.awaited = False
        """Whether the member is not ready before a lease holds: a shard refused something for want
        of a lease or of a leader, or there was no lease yet."""
        self._ended = False

    @property
    def holds(self) -> bool:
        """Whether what is taken may be handed out."""
        return steady_s() < self.until_s

    def is_incarnation_due(self, *, ended: bool) -> bool:
        """Tell whether another incarnation is to begin before anything is handed out.

        Args:
            ended: whether the others may be ending this one; it is remembered.
        """
        self._ended = self._ended or (ended and self.until_s > -math.inf)
        return self._ended

    def hold(self, until_s: float) -> None:
        """Hold until then; -inf: there is no lease, and the member is not ready without one."""
        self.until_s = until_s
        self.awaited = self.awaited or until_s == -math.inf
        self._ended = False

    def look(self, *, refused: bool) -> None:
        """Await a lease from when the shard refuses until it takes records and a lease holds."""
        self.awaited = refused or (self.awaited and not self.holds)

    def begin_anew(self) -> None:
        """Hold nothing in an incarnation that just began, until there is a lease for it."""
        if self.until_s < math.inf:
            self.until_s = -math.inf
        self._ended = False
