"""The sessions of the CP subsystem: the leases of the members.

A lease is what a member has things by for as long as it lives: its locks, and the items in flight
of the queues. Nothing else opens a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.cluster.cp.subsystem import bracket
from grid_member.cluster.membership.failure_detector import FailureDetector
from grid_member.cluster.membership.member_table import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.cp.subsystem import CpSessionDocument
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.log.log import Clock


class CpSessions:
    """Shows the leases as sessions."""

    def __init__(
        self, membership: Membership, clock_s: Callable[[], float], clock_ms: Clock
    ) -> None:
        self._membership = membership
        self._clock_ms = clock_ms
        self._failure_detector = FailureDetector(clock_s)
        membership.on_change[LEASE] = self._look

    def documents(self) -> list[CpSessionDocument]:
        """Return them in the order in which the members joined."""
        self._look()
        leases = self._membership.member_table.leases()
        return [
            {
                "id": member.joined_ms,
                "creationTime": member.joined_ms,
                "expirationTime": self._clock_ms()
                + round(self._failure_detector.remaining_s(member.uuid) * 1000),
                "version": leases[member.uuid].beat,
                "endpoint": bracket(member.address),
                "endpointType": "SERVER",
                "endpointName": member.name,
            }
            for member in self._membership.member_table.members()
            if member.uuid in leases
        ]

    def has_session(self, session: str) -> bool:
        """Tell whether a session has the number."""
        return session in {str(found["id"]) for found in self.documents()}

    def _look(self) -> None:
        self._failure_detector.look(self._membership.member_table.leases())
