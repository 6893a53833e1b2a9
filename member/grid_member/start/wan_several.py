"""WAN replication of one of several members: who sends what, and what others are asked."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.cluster.management.departure import MemberDeparture
from grid_member.cluster.membership.shutdowns import shutdown_request
from grid_member.engine.local.wan import ClusterView
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.start.wan_replicas import ReplicaAnswers, ReplicaQuestions
from grid_member.wan.members.requests import Replica, RequestServer
from grid_member.wan.members.sharing import Shared
from grid_member.wan.members.sources import StoredSources

if TYPE_CHECKING:
    from grid_member.cluster.member.member import Member
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.replicated.engine import ClusterEngine
    from grid_member.engine.shard.shard import Shard
    from grid_member.wan.agreement.part import WanReplication
    from grid_member.wan.receiver import PassOn, Receiver

_log: Final = logging.getLogger("grid.wan")


class SeveralWan:
    """What one of several members does beyond what a member alone does."""

    def __init__(
        self,
        member: Member,
        engine: ClusterEngine,
        membership: Membership,
        agreement: WanReplication,
    ) -> None:
        self._engine = engine
        self._membership = membership
        self._calls = calls = agreement.calls
        self._replica = Replica(lambda: engine.client)
        self._server: RequestServer | None = None
        self._questions = questions = ReplicaQuestions(self._replica)
        stored = calls.keeper.stored
        self.sharing = Shared(
            engine,
            membership.member_table.members,
            lambda: engine.member_uuid,
            stored.paused_by_restore,
        )
        self.sources = StoredSources(engine)
        durable = member.config.data_directory is not None
        self.view = ClusterView(
            whole=self._is_whole,
            is_held=_is_held,
            # Beside shards on disks the last one is in memory.
            in_memory=lambda shard: not durable or shard is engine.shards[-1],
            agreed=lambda: stored.agreement,
        )
        calls.asks = lambda: (
            None if self._is_whole() else partial(questions.status, engine.member_uuid)
        )
        calls.jobs.asks = lambda: None if self._is_whole() else questions.maps
        calls.keeper.shards.beyond = lambda: None if self._is_whole() else questions.tell
        departing = member.management.departing
        if isinstance(departing, MemberDeparture):
            departing.before_leaving = self._leave

    def replica(self) -> PassOn | None:
        """Return what answers messages in place of this member, None when it has all shards."""
        return None if self._is_whole() else self._replica.ask

    def start(self, receiver: Receiver) -> None:
        """Answer members that lack shards from now on; the member has joined."""
        if self._membership.description.lite:
            return
        answers = ReplicaAnswers(self._calls, receiver, self._is_whole).by_kind()
        own = uuid.UUID(self._engine.member_uuid).bytes
        self._server = RequestServer(self._engine.client, own, answers, _log)
        self._server.start()

    async def stop(self) -> None:
        """Answer and ask nobody any more."""
        await self._questions.close()
        if self._server is not None:
            await self._server.stop()

    @property
    def is_last(self) -> bool:
        """Whether what is in memory goes with this member: no other has data, or all stop."""
        if shutdown_request(self._engine) is not None:
            return True
        own = self._engine.member_uuid
        members = self._membership.member_table.members()
        return all(each.lite or each.uuid == own for each in members)

    def _is_whole(self) -> bool:
        engine = self._engine
        return engine.whole if isinstance(engine, PartEngine) else True

    async def _leave(self) -> None:
        await self._calls.keeper.forget([self._engine.member_uuid])


def _is_held(shard: Shard) -> bool:
    return isinstance(shard, ReplicatedShard) and shard.held_records is not None
