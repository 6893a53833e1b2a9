"""What the shards of a start are read from: each stream made and read as soon as somebody leads it.

    first stream ─▶ the others, all at once ─▶ each shard, when its log and snapshots are there

After a kill, or when all members start again, every stream elects a leader of its own, some of them
seconds after others. What can be read is read meanwhile, one shard at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from grid_member.engine.bootstrap.wait_reasons import NO_LEADER
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.jetstream.retry import await_growth, longer
from grid_member.engine.nats.admin.streams import ensure_stream
from grid_member.engine.nats.client.errors import NatsError, ShortError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.integrity.damage import Damage
    from grid_member.engine.lost_memory.empty_logs import EmptyLogs
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard

RETRY_S: Final = 0.5


class Streams:
    """The streams of one begin; what is made of them goes on until the end of the block."""

    def __init__(
        self,
        client: NatsClient,
        settings: ClusterSettings,
        streams: Sequence[Stream],
        waiting: Callable[[str], None],
        servers: Callable[[], Awaitable[int]],
        creation_obstacle: Callable[[Stream], Awaitable[str | None]],
        damage: Damage,
        empty_logs: EmptyLogs | None = None,
    ) -> None:
        """Make none yet."""
        self._client = client
        self._settings = settings
        self._streams = streams
        self._waiting = waiting
        self._servers = servers
        """Returns how many servers can hold a copy."""
        self._creation_obstacle = creation_obstacle
        """Returns why a stream that is not there is not to be made; None: it may be."""
        self._damage = damage
        self._copies = min(settings.copies, len(settings.members))
        self._empty_logs = empty_logs
        self._watching: list[asyncio.Task[None]] = []
        self._making: dict[Stream, asyncio.Task[int]] = {}
        self._reading = asyncio.Lock()
        self._awaited: list[Stream] = []
        self._unread: set[Stream] = set()
        """Those of shards that could not be read when that was tried last."""

    async def __aenter__(self) -> Self:
        """Make the first one, and begin to make the others: none may be there before it."""
        self._copies = await self._ensure(self._streams[0])
        if self._empty_logs is not None:
            self._watching = [asyncio.ensure_future(self._empty_logs.watch())]
        for stream in (*self._streams, *(one.snapshots for one in self._streams)):
            self._making[stream] = asyncio.ensure_future(self._ensure(stream))
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(*self._making.values(), *self._watching)

    async def await_first(self) -> Stream:
        """Return the first one when it is there, also when it was deleted meanwhile."""
        await self._ensure(self._streams[0])
        return self._streams[0]

    async def await_made(self) -> None:
        """Return when all of them are there.

        Raises:
            EngineError: there is a stream of such a name that is another one.
        """
        await asyncio.gather(*self._making.values())

    async def shards(
        self, made: Callable[[int, Stream], ReplicatedShard], shards: Iterable[int]
    ) -> list[ReplicatedShard]:
        """Return the shards of those numbers, brought up to what their streams hold.

        Raises:
            EngineError: what is stored is damaged.
        """
        reading = [asyncio.ensure_future(self._read(shard, made)) for shard in shards]
        try:
            return await asyncio.gather(*reading)
        finally:
            await end_tasks(*reading)

    async def _read(
        self, number: int, made: Callable[[int, Stream], ReplicatedShard]
    ) -> ReplicatedShard:
        stream = self._streams[number]
        await asyncio.gather(self._making[stream], self._making[stream.snapshots])
        short_s = RETRY_S
        while True:
            shard = made(number, stream)
            try:
                async with self._reading:
                    await shard.read()
                self._unread.discard(stream)
                return shard
            except NatsError as error:
                self._unread.add(stream)
                self._tell(stream, self._damage.reason(error))
                if isinstance(error, ShortError):
                    await await_growth(self._client, error, short_s)
                    short_s = longer(short_s)
                else:
                    self._damage.unread(stream)
                    await asyncio.sleep(RETRY_S)
                for one in (stream, stream.snapshots):  # a rescue may have deleted them
                    await self._ensure(one)

    async def _ensure(self, stream: Stream) -> int:
        self._awaited.append(stream)
        try:
            return await ensure_stream(
                *(self._client, stream, self._copies, self._settings.cluster_name),
                lambda reason: self._tell(stream, reason),
                self._servers,
                self._creation_obstacle,
            )
        finally:
            self._awaited.remove(stream)

    def _tell(self, stream: Stream, reason: str) -> None:
        """Tell what is waited for, of many at once that of the first: in turn it would change."""
        if stream in self._subject_of(stream):
            empty_logs = self._empty_logs
            if empty_logs is not None and NO_LEADER in reason and empty_logs.concerns(stream):
                reason = empty_logs.answers
            self._waiting(reason)

    def _subject_of(self, stream: Stream) -> tuple[Stream, ...]:
        """Return what is waited for: a shard's log and snapshots, or one of them."""
        for one in self._streams:
            if one in self._unread:
                return one, one.snapshots
        return (next(iter(self._awaited), stream),)
