"""The other members, as the engine needs to know them for what it does with their servers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.locks import CHANGE, LockedError
from grid_member.engine.replication import LockedOutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_member.cluster.membership.membership import Membership

PATIENCE_S: Final = 1.0
"""How long the lock is waited for before all is looked at anew."""


class ListedColleagues:
    """Those on the list of members."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    def servers(self) -> frozenset[str]:
        """Return the names of the servers of all members that send heartbeats."""
        table = self._membership.member_table
        leases = table.leases()
        return frozenset(
            member.server for member in table.members() if member.uuid in leases and not member.lite
        )

    def lite(self) -> int:
        """Return how many of those members hold no data."""
        table = self._membership.member_table
        leases = table.leases()
        return sum(member.lite and member.uuid in leases for member in table.members())

    @contextlib.asynccontextmanager
    async def lock_cluster(self, purpose: str) -> AsyncIterator[None]:
        """Have the lock of the cluster's changes.

        Raises:
            LockedOutError: another member has it, or this one is not on the list.
        """
        if not self._membership.joined:
            raise LockedOutError
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(
                    self._membership.locks.hold(CHANGE, purpose, PATIENCE_S)
                )
            except LockedError as error:
                raise LockedOutError from error
            yield
