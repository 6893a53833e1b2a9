"""Which operations and reads travel together, and for whom a record waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

from grid_member.engine.api import ClusterState
from grid_member.engine.shard import batching
from grid_member.engine.shard.shard import Shard
from grid_member.engine.state.operations import ClusterStateChange
from tests.unit.engine.cluster.proposals import OWN, HandLog, Proposals, put
from tests.unit.engine.drive import condition
from tests.unit.engine.recording import FULL

if TYPE_CHECKING:
    import pytest

MANY = 20
HOURS = 9999.0
"""Longer than any test: who waits for that waits for ever."""


class Clients:
    """Ask a shard for something and count what they are told."""

    def __init__(self) -> None:
        self.proposals = Proposals()
        self.log, self.shard = self.proposals.log, self.proposals.shard
        self.answered = 0
        self.log.sent.clear()

    def write(self, count: int) -> None:
        for number in range(count):
            self.shard.propose(put(str(number)), self._answer, 10)

    def read(self, count: int) -> None:
        for _ in range(count):
            self.shard.read_when_current(self._answer)

    async def write_and_wait(self, count: int) -> None:
        """Write in one tick, and be answered."""
        self.write(count)
        await condition(lambda: bool(self.log.on_their_way))
        self.come_back()

    def come_back(self) -> None:
        """Have all records come back, and room for others, as the log does."""
        self.proposals.come_back()
        self.shard.send_waiting()

    @property
    def sizes(self) -> list[int]:
        return [len(record.operations) for record in self.log.sent]

    def _answer(self, outcome: object) -> None:
        assert outcome is None
        self.answered += 1


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have records wait as long as the last one took, which is an hour by their clock."""
    now = [0.0]

    def clock() -> float:
        now[0] += 3600
        return now[0]

    monkeypatch.setattr(batching, "PATIENCE_S", HOURS)
    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=clock))


async def tick() -> None:
    """Let the shard send what it sends at the end of a tick."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_who_is_alone_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients()
    patient(monkeypatch)
    for _ in range(3):
        clients.write(1)
        await tick()
        assert len(clients.log.on_their_way) == 1
        clients.come_back()
    assert clients.answered == 3


async def test_who_was_answered_together_travels_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients()
    patient(monkeypatch)
    await clients.write_and_wait(MANY)
    for count in (3, 7, 8):
        assert clients.sizes == [MANY]
        clients.write(count)
        await tick()
    assert clients.sizes == [MANY, 18]  # nearly all


async def test_reads_are_waited_for_as_writes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients()
    patient(monkeypatch)
    clients.read(MANY)
    await tick()
    clients.come_back()
    assert clients.answered == MANY
    clients.read(10)
    await tick()
    assert clients.sizes == [0]
    clients.write(8)
    await tick()
    assert clients.sizes == [0, 8]
    clients.come_back()
    assert clients.answered == MANY + 18


async def test_who_does_not_come_is_not_waited_for_long() -> None:
    clients = Clients()
    await clients.write_and_wait(MANY)
    clients.write(1)
    await condition(lambda: clients.sizes == [MANY, 1])
    clients.come_back()
    clients.write(1)
    await tick()
    assert clients.sizes == [MANY, 1, 1]  # and the next one is alone


async def test_behind_a_large_record_the_next_one_grows() -> None:
    clients = Clients()
    clients.write(MANY)
    await tick()
    clients.write(5)
    await tick()
    clients.write(MANY)
    await tick()
    assert clients.sizes == [MANY]
    clients.come_back()
    assert clients.sizes == [MANY, MANY + 5]


async def test_a_small_record_keeps_nobody_waiting() -> None:
    clients = Clients()
    clients.write(2)
    await tick()
    clients.write(MANY)
    await tick()
    assert clients.sizes == [2, MANY]


async def test_what_becomes_of_the_cluster_waits_for_no_data() -> None:
    clients = Clients()
    clients.write(MANY)
    await tick()
    clients.write(1)
    clients.shard.propose_system(ClusterStateChange(ClusterState.FROZEN), lambda outcome: None)
    await tick()
    assert clients.sizes == [MANY, 1, 1]


async def test_a_stop_waits_for_what_was_gathered() -> None:
    clients = Clients()
    await clients.write_and_wait(MANY)
    clients.write(1)
    settling = asyncio.create_task(clients.shard.settle())
    await condition(lambda: bool(clients.log.on_their_way))
    assert not settling.done()
    clients.come_back()
    await settling
    assert clients.answered == MANY + 1


async def test_a_log_on_one_disk_gets_records_that_carry_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient(monkeypatch)
    log = HandLog()
    shard = Shard(log, OWN, lambda: 0, lambda shard, names: None)
    shard.replay()
    shard.start(asyncio.get_running_loop())
    shard.take_committed(log.committed(*log.on_their_way))
    answers: list[object] = []

    async def write(count: int) -> None:
        for number in range(count):
            shard.propose(put(str(number)), answers.append, 10)
        await tick()

    await write(MANY)
    await write(5)
    await write(MANY)
    assert [len(record.operations) for record in log.sent] == [0, MANY]
    shard.take_committed(log.committed(*log.on_their_way))
    assert [len(record.operations) for record in log.sent] == [0, MANY, MANY + 5]
    shard.take_rejected([log.on_their_way.pop()], FULL)
    assert answers == [None] * MANY + [FULL] * (MANY + 5)
