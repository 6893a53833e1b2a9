"""A shard of a cluster over a log whose records the test brings back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.state.operations import Committed, MapPut, MemberGone, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.engine.api import EngineError, Refused
    from grid_member.engine.log.log import RecordConsumer, Steps
    from grid_member.engine.nats.client.errors import ShortError
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.snapshot import Snapshot

OWN, OTHER = b"o" * 16, b"x" * 16


class HandLog:
    """A shared log whose records the test brings back."""

    shard = 0
    ground = None
    wants_batches = True
    has_other_readers = True
    created = "then"
    confirmed_s = 0.0

    def __init__(self) -> None:
        self.refusal: Refused | None = None
        self.crowded = False
        self.in_contact = True
        self.damaged = False
        self.sent: list[Record] = []
        self.on_their_way: list[Record] = []
        self.kept: list[Committed] = []
        """What a replay finds."""
        self.unreadable: list[Exception] = []
        """What the next replays raise."""
        self.resumed = 0
        self.distrusted = 0
        self.left_alone: list[float] = []
        """For how long, each time that it was found short."""
        self.failures: list[EngineError] = []
        self._sequence = 0

    def replay(self) -> Steps:
        if self.unreadable:
            raise self.unreadable.pop(0)
        yield from list(self.kept)

    def start(self, consumer: RecordConsumer) -> None:
        """Take records."""

    def append(self, record: Record) -> None:
        self.sent.append(record)
        self.on_their_way.append(record)

    def carries(self, counter: int) -> bool:
        return any(record.counter == counter for record in self.on_their_way)

    def withdraw(self) -> list[Record]:
        records, self.on_their_way = self.on_their_way, []
        return records

    def committed(self, *records: Record) -> list[Committed]:
        """Return the records as a batch, as the log does: what is in it is on its way no more."""
        batch: list[Committed] = []
        for record in records:
            self._sequence += 1
            if record in self.on_their_way:
                self.on_their_way.remove(record)
            batch.append(Committed(self._sequence, 1000 + self._sequence, record))
        self.kept += batch
        return batch

    def reconnect(self) -> None:
        """Nothing is connected."""

    def forget(self, counters: Iterable[int]) -> None:
        """Nothing is sent again."""

    def distrust(self, error: ShortError) -> None:
        self.distrusted += 1

    def halt(self) -> None:
        """Nothing is halted."""

    async def await_growth(self, error: ShortError, delay_s: float) -> None:
        self.left_alone.append(delay_s)
        await asyncio.sleep(0)

    def resume(self) -> None:
        self.resumed += 1

    def fail(self, error: EngineError) -> None:
        self.failures.append(error)

    def wants_snapshot(self, live_bytes: int) -> bool:
        return False

    def store_snapshot(self, snapshot: Snapshot) -> None:
        raise AssertionError("no image is wanted")

    def lose_patience(self, within_s: float) -> None:
        """Give up nothing."""

    async def close(self) -> None:
        """Nothing is open."""


class Proposals:
    """A shard and what became of what was proposed to it."""

    def __init__(
        self, on_arrival: Callable[[Shard, set[str]], None] = lambda shard, names: None
    ) -> None:
        self.log = HandLog()
        self.shard = ReplicatedShard(self.log, OWN, 1, on_arrival)
        self.answers: dict[str, Any] = {}
        self.shard.replay()
        self.shard.start(asyncio.get_running_loop())
        self.come_back()

    def come_back(self, *records: Record) -> None:
        self.shard.take_committed(self.log.committed(*(records or list(self.log.on_their_way))))

    async def propose(self, name: str, operation: object) -> Record:
        def answer(outcome: object) -> None:
            assert name not in self.answers, "answered twice"
            self.answers[name] = outcome

        self.shard.propose(operation, answer, 10)  # type: ignore[arg-type]
        before = len(self.log.sent)
        await asyncio.sleep(0)
        assert len(self.log.sent) == before + 1
        return self.log.sent[-1]

    def gone(self, counter: int) -> Record:
        """Return what another member sends that takes this one for gone."""
        end = MemberGone(OWN, self.log.sent[-1].incarnation)
        return Record(OTHER, 1, counter, (end,))


def put(key: str) -> MapPut:
    return MapPut("m", key, b"v", None, 0)
