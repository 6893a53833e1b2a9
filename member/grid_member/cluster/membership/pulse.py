"""Which members are silent, by the one clock that neither jumps nor differs: this member's own.

A member counts as silent when its lease was not renewed for `LEASE_S` while this member's own was,
all that time: when nobody can renew anything, because a majority is not there or this process was
stopped, silence says nothing of the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.cluster.membership.roll import Lease

RENEW_S: Final = 2.0
"""How often a member gives a sign of life."""
LEASE_S: Final = 10.0
"""How long a silent member stays on the list."""
STEADY_GAP_S: Final = 3 * RENEW_S
"""The longest time between two own signs that says nothing of the others."""


class Pulse:
    """Hears the signs of life."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """Take a clock that only goes forward."""
        self._clock_s = clock_s
        self._heard: dict[str, tuple[Lease, float]] = {}
        self._steady_s: float | None = None
        self._renewed_s = 0.0

    def renewed(self) -> None:
        """Hear that this member's own sign of life came back."""
        now_s = self._clock_s()
        if self._steady_s is None or now_s - self._renewed_s > STEADY_GAP_S:
            self._steady_s = now_s
        self._renewed_s = now_s

    def look(self, leases: Mapping[str, Lease]) -> set[str]:
        """Hear the signs that are new; return the members whose lease has ended since.

        Sign and end of a lease may cross: whose sign was heard since has a lease again soon.
        """
        now_s = self._clock_s()
        ended = {
            uuid for uuid in self._heard if uuid not in leases and self.quiet_s(uuid) >= LEASE_S
        }
        for uuid in ended:
            del self._heard[uuid]
        for uuid, lease in leases.items():
            before = self._heard.get(uuid)
            if before is None or (before[0].life, before[0].beat) != (lease.life, lease.beat):
                self._heard[uuid] = lease, now_s
        return ended

    def quiet_s(self, uuid: str) -> float:
        """Return for how long no sign of a member was heard; infinite when none ever was."""
        heard = self._heard.get(uuid)
        return math.inf if heard is None else self._clock_s() - heard[1]

    def left_s(self, uuid: str) -> float:
        """Return how long a member that gives no sign from now on stays on the list."""
        heard = self._heard.get(uuid)
        return LEASE_S if heard is None else LEASE_S - (self._clock_s() - heard[1])

    def silent(self) -> dict[str, Lease]:
        """Return the members that are silent for too long, with their last sign."""
        now_s = self._clock_s()
        if self._steady_s is None or now_s - self._renewed_s > STEADY_GAP_S:
            return {}
        since_s = self._steady_s
        return {
            uuid: lease
            for uuid, (lease, heard_s) in self._heard.items()
            if now_s - max(heard_s, since_s) >= LEASE_S
        }
