"""WAN replication of one of several members: who sends what, and what others are asked."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import TYPE_CHECKING, Final, cast

from grid_member.cluster.management.departure import MemberDeparture
from grid_member.cluster.membership.shutdowns import shutdown_request
from grid_member.engine.api import Reason, Refused
from grid_member.engine.local.wan import ClusterView
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.state.codec import CodecError, decode_record, encode_record
from grid_member.engine.state.operations import Record
from grid_member.engine.wan.agreement import PublisherName
from grid_member.wan.agreement.calls import WanUnavailableError
from grid_member.wan.agreement.shards import tell
from grid_member.wan.jobs.keeper import PublisherMaps
from grid_member.wan.ports import BusyError, ConflictError
from grid_member.wan.protocol import ProtocolError
from grid_member.wan.requests import Replica, RequestKind, RequestServer
from grid_member.wan.sharing import Shared
from grid_member.wan.sources import StoredSources

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.member.member import Member
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.replicated.engine import ClusterEngine
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import Operation
    from grid_member.wan.agreement.calls import WanStatusDocument
    from grid_member.wan.agreement.part import WanReplication
    from grid_member.wan.receiver import PassOn, Receiver

NOT_WHOLE: Final = "the member that was asked does not hold all of the data yet"
_NO_MEMBER: Final = bytes(16)
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
        self._receiver: Receiver | None = None
        self._server: RequestServer | None = None
        self._asking: set[asyncio.Task[None]] = set()
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
        calls.asks = lambda: None if self._is_whole() else self._ask_status
        calls.jobs.asks = lambda: None if self._is_whole() else self._ask_maps
        calls.keeper.shards.beyond = lambda: None if self._is_whole() else self._tell_beyond
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
        self._receiver = receiver
        answers = {
            RequestKind.CHANGES: self._take,
            RequestKind.STATUS: self._show,
            RequestKind.TELL: self._tell_all,
            RequestKind.DIGESTS: self._digests,
            RequestKind.KEYS: self._keys,
            RequestKind.MAPS: self._show_maps,
        }
        own = uuid.UUID(self._engine.member_uuid).bytes
        self._server = RequestServer(self._engine.client, own, answers, _log)
        self._server.start()

    async def stop(self) -> None:
        """Answer and ask nobody any more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
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

    # What others ask this member

    async def _take(self, batch: bytes) -> bytes:
        return await self._whole_receiver().take(batch)

    async def _digests(self, question: bytes) -> bytes:
        return await self._whole_receiver().digests(question)

    async def _keys(self, question: bytes) -> bytes:
        return await self._whole_receiver().keys(question)

    def _whole_receiver(self) -> Receiver:
        self._check_whole()
        if self._receiver is None:
            raise BusyError(NOT_WHOLE)
        return self._receiver

    async def _show(self, asking: bytes) -> bytes:
        self._check_whole()
        return json.dumps(self._calls.status(asking.decode("ascii", "replace"))).encode()

    async def _show_maps(self, asked: bytes) -> bytes:
        self._check_whole()
        replication, publisher, map_name = json.loads(asked)
        found = self._calls.jobs.maps(PublisherName(replication, publisher), map_name)
        return json.dumps(found).encode()

    async def _tell_all(self, body: bytes) -> bytes:
        self._check_whole()
        try:
            operations = decode_record(body).operations
        except CodecError as problem:
            raise ProtocolError(str(problem)) from None
        shards = self._calls.keeper.shards.with_data()
        for operation in operations:
            outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            tell(shards, operation, outcome.set_result)
            refused = await outcome
            if isinstance(refused, Refused):
                raise BusyError(refused.message)
        return b""

    def _check_whole(self) -> None:
        if not self._is_whole():
            raise BusyError(NOT_WHOLE)

    # What this member asks others

    async def _ask_status(self) -> WanStatusDocument:
        own = self._engine.member_uuid.encode()
        try:
            answer = await self._replica.ask(RequestKind.STATUS, own)
        except (BusyError, ConflictError, ProtocolError) as problem:
            raise WanUnavailableError(str(problem)) from None
        return cast("WanStatusDocument", json.loads(answer))

    async def _ask_maps(self, publisher: PublisherName, map_name: str) -> PublisherMaps:
        body = json.dumps([*publisher, map_name]).encode()
        try:
            holds, replicated, comparing = json.loads(
                await self._replica.ask(RequestKind.MAPS, body)
            )
        except (ConflictError, ProtocolError) as problem:
            raise BusyError(str(problem)) from None
        return PublisherMaps(holds, replicated, tuple(comparing))

    def _tell_beyond(self, operation: Operation, done: Callable[[object], None]) -> None:
        body = encode_record(Record(_NO_MEMBER, 0, 0, (operation,)))
        task = asyncio.get_running_loop().create_task(self._tell(body, done))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _tell(self, body: bytes, done: Callable[[object], None]) -> None:
        try:
            await self._replica.ask(RequestKind.TELL, body)
        except (BusyError, ConflictError, ProtocolError) as problem:
            done(Refused(Reason.UNAVAILABLE, str(problem)))
        else:
            done(None)


def _is_held(shard: Shard) -> bool:
    return isinstance(shard, ReplicatedShard) and shard.held_records is not None
