"""WAN replication as a part of a member: what is kept going while the member runs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from grid_member.engine.io.ending import end_tasks
from grid_member.engine.log.log import wall_clock_ms
from grid_member.wan.agreement.calls import WanCalls, is_addition
from grid_member.wan.agreement.keeper import WanKeeper
from grid_member.wan.agreement.shards import WanShards
from grid_member.wan.jobs.keeper import JobKeeper
from grid_member.wan.jobs.status import operation_documents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from grid_member.cluster.member.member import Member
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.api import DataOrigin
    from grid_member.engine.shard.shard import Shard

    class ShardedEngine(Protocol):
        """The engine as WAN replication sees it."""

        @property
        def shards(self) -> Sequence[Shard]:
            """Its shards."""

        @property
        def origin(self) -> DataOrigin:
            """Where the stored data came from."""


class WanReplication:
    """Begins and ends with the member."""

    def __init__(self, calls: WanCalls, membership: Membership | None) -> None:
        self.calls = calls
        self._membership = membership
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Keep the agreement from now on."""
        if self._membership is not None:
            vote, calls = self._membership.configuration_vote, self.calls
            former = vote.objection
            vote.objection = lambda content: (
                calls.objection(content) if is_addition(content) else former(content)
            )
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(each.run()) for each in (self.calls.keeper, self.calls.jobs)
        ]

    async def close(self) -> None:
        """Keep it no more."""
        await end_tasks(*self._tasks)


def make_wan(
    member: Member, engine: ShardedEngine, membership: Membership | None
) -> WanReplication:
    """Return the part of a member that has its management already."""
    management = member.management
    shards = WanShards(lambda: engine.shards, lambda: engine.origin)
    keeper = WanKeeper(
        management.store, member, management.versions, shards, membership, management.config_lock
    )
    management.config_changes.replications = keeper.replications
    jobs = JobKeeper(management.store, keeper, wall_clock_ms)
    management.operations.others = partial(operation_documents, jobs.store)
    return WanReplication(WanCalls(keeper, lambda: member.config, jobs), membership)
