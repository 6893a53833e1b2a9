"""Which members that the system store knows of WAN replication have left the cluster for good.

A member that is off the list of members may come back: one with a disk as itself, one in memory
with another UUID. No time of a clock decides, since clocks jump: looks are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

LOOKS_IN_MEMORY: Final = 600
"""Looks, one a second, after which a member of a cluster in memory does not come back."""
LOOKS_WITH_DISKS: Final = 7 * 24 * 3600
"""The same of a cluster whose members keep data on disks."""


class DepartedMembers:
    """Counts, for each member that is off the list, how often it was missed."""

    def __init__(self) -> None:
        self._missed: dict[str, int] = {}

    def look(self, known: Collection[str], listed: Collection[str], looks: int) -> list[str]:
        """Return the members that were missed at so many looks in a row, in order.

        Args:
            known: UUIDs of members about which anything is stored.
            listed: UUIDs of members on the list, and of those that may come back.
            looks: `LOOKS_IN_MEMORY` or `LOOKS_WITH_DISKS`.
        """
        self._missed = {
            member: self._missed.get(member, 0) + 1 for member in known if member not in listed
        }
        return sorted(member for member, missed in self._missed.items() if missed >= looks)
