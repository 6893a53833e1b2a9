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

    from grid_member.cluster.membership.member_table import Lease

RENEW_S: Final = 2.0
"""How often a member sends a heartbeat."""
LEASE_S: Final = 10.0
"""How long a silent member stays on the list."""
STEADY_GAP_S: Final = 3 * RENEW_S
"""The longest time between two own heartbeats that says nothing of the others."""


class FailureDetector:
    """Tells from their heartbeats which members are silent."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """Take a clock that only goes forward."""
        self._clock_s = clock_s
        self._last_beats: dict[str, tuple[Lease, float]] = {}
        self._steady_since_s: float | None = None
        self._renewed_s = 0.0

    def note_own_renewal(self) -> None:
        """Note that the log took this member's own heartbeat."""
        now_s = self._clock_s()
        if self._steady_since_s is None or now_s - self._renewed_s > STEADY_GAP_S:
            self._steady_since_s = now_s
        self._renewed_s = now_s

    def look(self, leases: Mapping[str, Lease]) -> set[str]:
        """Note the heartbeats that are new; return the members whose lease has ended since.

        Heartbeat and end of a lease may cross: a member with a heartbeat since has a lease again
        soon.
        """
        now_s = self._clock_s()
        ended = {
            uuid
            for uuid in self._last_beats
            if uuid not in leases and self.silence_s(uuid) >= LEASE_S
        }
        for uuid in ended:
            del self._last_beats[uuid]
        for uuid, lease in leases.items():
            before = self._last_beats.get(uuid)
            if before is None or (before[0].incarnation, before[0].beat) != (
                lease.incarnation,
                lease.beat,
            ):
                self._last_beats[uuid] = lease, now_s
        return ended

    def silence_s(self, uuid: str) -> float:
        """Return for how long no heartbeat of a member came; infinite when none ever did."""
        last = self._last_beats.get(uuid)
        return math.inf if last is None else self._clock_s() - last[1]

    def remaining_s(self, uuid: str) -> float:
        """Return how long a member that sends no heartbeat from now on stays on the list."""
        last = self._last_beats.get(uuid)
        return LEASE_S if last is None else LEASE_S - (self._clock_s() - last[1])

    def silent_members(self) -> dict[str, Lease]:
        """Return the members that are silent for too long, with their last heartbeat."""
        now_s = self._clock_s()
        if self._steady_since_s is None or now_s - self._renewed_s > STEADY_GAP_S:
            return {}
        since_s = self._steady_since_s
        return {
            uuid: lease
            for uuid, (lease, heard_s) in self._last_beats.items()
            if now_s - max(heard_s, since_s) >= LEASE_S
        }
