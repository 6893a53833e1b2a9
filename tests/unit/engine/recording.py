"""A log in memory that shows what it was given, and that can refuse to take more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from grid_member.engine import open_engine
from grid_member.engine.api import Reason, Refused
from grid_member.engine.log.log import MemoryLog
from tests.unit.engine.drive import Driver, FixedStructures, HandClock

if TYPE_CHECKING:
    import pytest

    from grid_member.engine.log.log import Clock, RecordConsumer
    from grid_member.engine.state.operations import Operation, Record

O = TypeVar("O", bound="Operation")  # noqa: E741
FULL = Refused(Reason.UNAVAILABLE, "the disk is full")


class RecordingLog(MemoryLog):
    """Keeps every record that it was given; refuses them while `refuses` is set."""

    def __init__(self, clock: Clock, shard: int = 0) -> None:
        super().__init__(clock, shard)
        self.records: list[Record] = []
        self.refuses = False
        self._told: RecordConsumer | None = None

    def start(self, consumer: RecordConsumer) -> None:
        self._told = consumer
        super().start(consumer)

    def append(self, record: Record) -> None:
        self.records.append(record)
        if not self.refuses:
            super().append(record)
        elif self._told is not None:
            self._told.take_rejected([record], FULL)


class Recorded:
    """An engine over such a log, with a map `m` and a clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.structures = FixedStructures()
        self.clock = HandClock()
        self.logs: list[RecordingLog] = []
        monkeypatch.setattr("grid_member.engine.shard.shards.MemoryLog", self._log)

    def _log(self, clock: Clock, shard: int = 0) -> RecordingLog:
        self.logs.append(RecordingLog(clock, shard))
        return self.logs[-1]

    async def open(self) -> Driver:
        engine = open_engine(self.structures, clock=self.clock)
        await engine.start()
        return Driver(engine)

    @property
    def log(self) -> RecordingLog:
        return self.logs[-1]

    def operations(self, kind: type[O]) -> list[O]:
        return [
            operation
            for record in self.log.records
            for operation in record.operations
            if isinstance(operation, kind)
        ]


async def ticks(number: int = 4) -> None:
    """Let the event loop run what it has, a few times."""
    for _ in range(number):
        await asyncio.sleep(0)
