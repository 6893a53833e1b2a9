"""What a member does about changes of the system store that another member made."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.cluster.management.usage import disk_of
from grid_member.cluster.membership.member_table import MEMBER
from grid_member.cluster.membership.upkeep import Upkeep
from grid_member.cluster.persistence.backup_requests import serve_requests
from grid_member.config.tree import ConfigError
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from grid_member.cluster.management.management import Management
    from grid_member.cluster.membership.membership import Membership

DISK_S: Final = 10.0
"""How often a look at the disk is taken for the others."""
CP_COUNTS_DIFFER: Final = (
    "cp-subsystem.cp-member-count differs between members, so that the CP subsystem may not begin, "
    "or with another number: make it the same in the files of all, restart those that are changed"
)
_log: Final = logging.getLogger("grid.member")


class MembershipFollower:
    """Makes what is stored take effect on this member."""

    def __init__(
        self,
        management: Management,
        membership: Membership,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._management = management
        self._membership = membership
        self._sleep = sleep
        self._reported_cp_counts: set[tuple[str, int]] = set()

    async def watch_disk(self, directory: Path | None) -> None:
        """Tell the others now and then how the disk is, for ever."""
        while True:
            try:
                self._membership.disk = await asyncio.to_thread(
                    disk_of, self._management.usage, directory
                )
            except Exception as error:
                failure(_log, "it cannot be told how the disk is", error)
            await self._sleep(DISK_S)

    def begin(self) -> None:
        """Go by every change from now on."""
        membership = self._membership
        membership.configuration_vote.objection = self._management.config_changes.objection
        membership.on_change |= {
            "config/": self._follow_config,
            "cluster-version": partial(event, _log, logging.INFO, "cluster version changed"),
            "license": partial(event, _log, logging.INFO, "license changed"),
            "member-list": partial(
                event, _log, logging.INFO, "member list of the TCP/IP join changed"
            ),
            MEMBER: self._compare_cp_counts,
        }
        upkeep = Upkeep(membership)
        membership.on_gone += [self._forget_member, upkeep.note_gone]
        membership.keep(upkeep.run())
        if self._management.cp_keeper is not None:
            membership.keep(self._management.cp_keeper.run())

    def serve_requests(self) -> None:
        """Do from now on what others ask of this member, and what they have asked before.

        To be called when the operations of this member's last incarnation have been ended: one that
        it began earlier would be taken for one of those.
        """
        if not self._membership.description.lite:
            serve_requests(self._membership, self._management.persistence.backups)

    def _follow_config(self) -> None:
        try:
            self._management.config_changes.apply_stored()
        except ConfigError as error:
            # Nobody waits here for an answer; the next start tells the same and ends.
            problem = str(error.problems[0])
            event(_log, logging.ERROR, "added configuration has no effect here", problem=problem)

    def _compare_cp_counts(self) -> None:
        """Warn of members that were not known to have another `cp-member-count`."""
        membership = self._membership
        own = membership.engine.member_uuid
        # In the member table this member may be as it was before a restart.
        here = membership.description.cp_member_count
        differing = {
            (one.address, one.cp_member_count)
            for one in membership.member_table.members()
            # A member of an earlier version does not tell.
            if one.uuid != own and one.cp_member_count not in {None, here}
        }
        if differing - self._reported_cp_counts:
            others = ", ".join(f"{at} has {other}" for at, other in sorted(differing))
            event(_log, logging.WARNING, CP_COUNTS_DIFFER, here=here, others=others)
        self._reported_cp_counts = differing

    def _forget_member(self, uuid: str) -> None:
        members = self._membership.members()
        if members[0].uuid != self._membership.engine.member_uuid:
            return  # the oldest does it
        present = [member.uuid for member in members]
        for put in self._management.operations.interrupted_puts(present):
            put.send(self._management.store)  # the next join notes what the log refuses
