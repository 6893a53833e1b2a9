"""A server with a log and its snapshots, and members that read, are fed and write snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.jetstream.replay import ReplaySource
from grid_member.engine.jetstream.snapshots import look_at
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.nats.admin.streams import Stream, ask_successfully, stream_config
from grid_member.engine.state.codec import encode_record
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import MapPut, Record
from tests.unit.engine.nats.served import PASSWORD, USER, Served
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.api import Refused
    from grid_member.engine.jetstream.snapshots import SnapshotEnd
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.operations import Committed
    from grid_member.engine.state.snapshot import Snapshot

OWN = b"o" * 16
OTHER = b"x" * 16
COUNT = 10
"""Records of the log when its snapshot is taken."""


class StateConsumer:
    """The state of a member, made as a shard makes it."""

    def __init__(self) -> None:
        self.state = State()
        self.last_ms = 0
        self.losses = 0

    def load(self, log: JetStreamLog) -> None:
        for step in log.replay():
            if isinstance(step, list):
                self.state.load(step)
            else:
                self.take_committed([step])  # type: ignore[list-item]

    def take_committed(self, batch: Sequence[Committed]) -> None:
        for one in batch:
            self.state.apply(*one)
            self.last_ms = one.timestamp_ms

    def reload(self) -> None:
        self.losses += 1

    def take_unknown(self, records: Sequence[Record], refused: Refused) -> None:
        """Nothing is sent."""

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        """Nothing is sent."""

    def send_waiting(self) -> None:
        """Nothing waits."""


class World:
    """A server with a log and its snapshots, and what members do with them."""

    def __init__(self, client: NatsClient, served: Served, *, durable: bool = True) -> None:
        self.client = client
        self.log = Stream("log", durable)
        self.source = ReplaySource(served.address, USER, PASSWORD)
        self._members: list[JetStreamLog] = []

    async def begin(self) -> None:
        for stream in (self.log, self.log.snapshots):
            await self.create(stream)
        await self.write(1, COUNT)

    async def create(self, stream: Stream) -> None:
        await ask_successfully(
            self.client, f"STREAM.CREATE.{stream.name}", stream_config(stream, 1, "dev")
        )

    async def replace(self, count: int) -> None:
        """Have another log in place of this one, with so many records, all of a later time."""
        await ask_successfully(self.client, f"STREAM.DELETE.{self.log.name}")
        now_ms = wall_clock_ms()
        await until(lambda: wall_clock_ms() > now_ms)
        await self.create(self.log)
        await self.write(1, count)

    async def write(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            record = Record(OTHER, 1, number, (MapPut("m", f"k{number}", b"v", None, 0),))
            self.client.publish(self.log.subject.encode(), encode_record(record))

        async def on_arrival() -> bool:
            return bool((await self.state())["last_seq"] == last)

        await eventually(on_arrival)

    async def state(self) -> dict[str, Any]:
        info = await ask_successfully(self.client, f"STREAM.INFO.{self.log.name}")
        return dict(info["state"])

    async def nobody_is_fed(self) -> None:
        """Take the log's consumers away, those of members that are closed too."""
        name = self.log.name

        async def gone() -> bool:
            for one in (await ask_successfully(self.client, f"CONSUMER.NAMES.{name}"))[
                "consumers"
            ] or ():
                await ask_successfully(self.client, f"CONSUMER.DELETE.{name}.{one}")
            return bool((await self.state())["consumer_count"] == 0)

        await eventually(gone)

    def member(self) -> JetStreamLog:
        """Make a member's log."""
        log = JetStreamLog(
            self.client,
            self.log.name,
            0,
            OWN,
            source=self.source,
            own_server=lambda: None,
            stream_consumer=lambda: None,
        )
        self._members.append(log)
        return log

    async def in_snapshot(self) -> tuple[Snapshot, int]:
        """Have a member that is fed from the begin on write a snapshot.

        Returns:
            It, and the time of the record that it was taken at, as the member was told.
        """
        log, consumer = self.member(), StateConsumer()
        log.start(consumer)
        await until(lambda: consumer.state.sequence == COUNT)
        await until(lambda: log.wants_snapshot(0))
        snapshot = consumer.state.snapshot()
        log.store_snapshot(snapshot)
        await until(lambda: log._compactor.snapshots == 1)
        await log.close()
        self._members.remove(log)
        return snapshot, consumer.last_ms

    async def end(self) -> SnapshotEnd | None:
        return (await look_at(self.client, self.log.name)).end

    async def close(self) -> None:
        for log in self._members:
            await log.close()
