"""What members that lack shards ask a member that has all of them, and what that one answers."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from grid_member.cluster.values.system_store import carry_out
from grid_member.engine.api import Reason, Refused
from grid_member.engine.state.codec import CodecError, decode_record, encode_record
from grid_member.engine.state.operations import Record
from grid_member.engine.wan.agreement import PublisherName
from grid_member.wan.agreement.calls import WanUnavailableError
from grid_member.wan.agreement.shards import tell
from grid_member.wan.jobs.keeper import PublisherMaps
from grid_member.wan.members.requests import RequestKind
from grid_member.wan.ports import BusyError, ConflictError
from grid_member.wan.protocol import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.state.operations import Operation
    from grid_member.wan.agreement.calls import WanCalls, WanStatusDocument
    from grid_member.wan.members.requests import Answers, Replica
    from grid_member.wan.receiver import Receiver

NOT_WHOLE: Final = "the member that was asked does not hold all of the data yet"
_NO_MEMBER: Final = bytes(16)


class ReplicaAnswers:
    """Answers as long as this member has all shards."""

    def __init__(self, calls: WanCalls, receiver: Receiver, is_whole: Callable[[], bool]) -> None:
        self._calls = calls
        self._receiver = receiver
        self._is_whole = is_whole

    def by_kind(self) -> Answers:
        """Return what answers each kind of request."""
        answers: dict[RequestKind, Callable[[bytes], Awaitable[bytes]]] = {
            RequestKind.CHANGES: self._receiver.take,
            RequestKind.STATUS: self._show,
            RequestKind.TELL: self._tell,
            RequestKind.DIGESTS: self._receiver.digests,
            RequestKind.KEYS: self._receiver.keys,
            RequestKind.MAPS: self._show_maps,
        }
        return {kind: self._when_whole(answer) for kind, answer in answers.items()}

    def _when_whole(
        self, answer: Callable[[bytes], Awaitable[bytes]]
    ) -> Callable[[bytes], Awaitable[bytes]]:
        async def answer_when_whole(body: bytes) -> bytes:
            if not self._is_whole():
                raise BusyError(NOT_WHOLE)
            return await answer(body)

        return answer_when_whole

    async def _show(self, asking: bytes) -> bytes:
        return json.dumps(self._calls.status(asking.decode("ascii", "replace"))).encode()

    async def _show_maps(self, asked: bytes) -> bytes:
        replication, publisher, map_name = json.loads(asked)
        found = self._calls.jobs.maps(PublisherName(replication, publisher), map_name)
        return json.dumps(found).encode()

    async def _tell(self, body: bytes) -> bytes:
        try:
            operations = decode_record(body).operations
        except CodecError as problem:
            raise ProtocolError(str(problem)) from None
        shards = self._calls.keeper.shards.with_data()
        told = (partial(tell, shards, operation) for operation in operations)
        refused = next(filter(None, await carry_out(*told)), None)
        if refused is not None:
            raise BusyError(refused.message)
        return b""


class ReplicaQuestions:
    """Asks a member that has all shards."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._asking: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for no answer any more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def status(self, own: str) -> WanStatusDocument:
        """Return the status as the member of this UUID shows it.

        Raises:
            WanUnavailableError: no member that has all shards answers.
        """
        try:
            answer = await self._replica.ask(RequestKind.STATUS, own.encode())
        except (BusyError, ConflictError, ProtocolError) as problem:
            raise WanUnavailableError(str(problem)) from None
        return cast("WanStatusDocument", json.loads(answer))

    async def maps(self, publisher: PublisherName, map_name: str) -> PublisherMaps:
        """Return what the shards know of a publisher and a map.

        Raises:
            BusyError: no member that has all shards answers.
        """
        body = json.dumps([*publisher, map_name]).encode()
        try:
            shards, holds, replicated, comparing = json.loads(
                await self._replica.ask(RequestKind.MAPS, body)
            )
        except (ConflictError, ProtocolError) as problem:
            raise BusyError(str(problem)) from None
        return PublisherMaps(shards, holds, replicated, tuple(comparing))

    def tell(self, operation: Operation, done: Callable[[object], None]) -> None:
        """Have all shards told an operation; done is called with a refusal, or None."""
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
