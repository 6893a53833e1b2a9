"""Whether all members have the same `cp-member-count`: the oldest one goes by its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from grid_member.cluster.membership.membership import Membership

DIFFER: Final = (
    "cp-subsystem.cp-member-count differs between members, so that the CP subsystem may not begin, "
    "or with another number: make it the same in the files of all, restart those that are changed"
)
_log: Final = logging.getLogger("grid.member")


class CpCounts:
    """Warns, on each member, of those that have another number."""

    def __init__(self, membership: Membership) -> None:
        """Look at nobody yet."""
        self._membership = membership
        self._reported_differences: set[tuple[str, int]] = set()

    def look(self) -> None:
        """Warn of members that were not known to differ."""
        own = self._membership.engine.member_uuid
        # On the list this one may be as it was before a restart.
        here = self._membership.description.cp_member_count
        differing = {
            (one.address, one.cp_member_count)
            for one in self._membership.member_table.members()
            # One of an earlier version does not tell.
            if one.uuid != own and one.cp_member_count not in {None, here}
        }
        if differing - self._reported_differences:
            told = ", ".join(f"{at} has {other}" for at, other in sorted(differing))
            event(_log, logging.WARNING, DIFFER, here=here, others=told)
        self._reported_differences = differing
