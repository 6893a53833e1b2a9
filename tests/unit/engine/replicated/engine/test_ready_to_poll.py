"""Whether a member whose majority is back can do what it says: its lease may come last."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.api import Item, Refused
from grid_member.engine.leasehold import steady_s
from grid_member.engine.state.sharding import shard_of
from tests.unit.engine.cluster.echoes import SHARDS, EchoLog, echoing
from tests.unit.engine.drive import Driver, condition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_member.engine.replicated.engine import ClusterEngine

LONG_S: Final = 1000
TURNS: Final = 10
QUEUES: Final = [
    next(name for name in (f"q{n}" for n in range(99)) if shard_of(name, SHARDS) == shard)
    for shard in range(SHARDS)
]
"""One in each shard."""
pytestmark = pytest.mark.interpreted


class Leased:
    """A member that has started; its heartbeats are given by the test."""

    def __init__(self, engine: ClusterEngine, logs: list[EchoLog]) -> None:
        self.engine, self.logs = engine, logs
        self.driver = Driver(engine)

    def usable(self) -> bool:
        """Tell whether the engine lets its member be ready."""
        return self.engine.answering and self.engine.leased

    async def sign(self) -> None:
        """Give a heartbeat that is taken."""
        self.engine.lease(steady_s() + LONG_S, ended=False)
        await turns()

    async def lapse(self) -> None:
        """Let the lease end, as no sign was taken for long."""
        self.engine.lease(steady_s(), ended=False)
        await turns()

    def poll(self, queue: str) -> list[Item | Refused | None]:
        """Poll without waiting; return where the outcome appears."""
        heard: list[Item | Refused | None] = []
        self.engine.queue_poll(queue, 0, heard.append)
        return heard

    async def takes(self, heard: list[Item | Refused | None]) -> None:
        """Wait for an item, which is handed over."""
        await condition(lambda: bool(heard))
        assert isinstance(heard[0], Item)
        self.engine.queue_confirm(heard[0])


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def started() -> AsyncIterator[Leased]:
    """Start a member that has no lease yet, and let it have items in each shard."""
    engine, logs = echoing()
    engine.lease(-math.inf, ended=False)
    await engine.start()
    leased = Leased(engine, logs)
    for queue in QUEUES:
        assert await leased.driver.offer(queue, b"item") is True
    yield leased
    await engine.stop()


async def test_a_member_that_starts_is_not_ready_before_it_has_a_lease() -> None:
    async with started() as member:
        assert member.engine.answering
        assert not member.usable()
        await member.sign()
        assert member.usable()
        for queue in QUEUES:
            await member.takes(member.poll(queue))


async def test_a_majority_that_is_back_makes_no_member_ready_before_its_lease() -> None:
    async with started() as member:
        await member.sign()
        await member.lapse()
        for log in member.logs:
            log.refuse()
        assert not member.engine.answering
        for log in member.logs:
            log.recover()
        await condition(lambda: member.engine.answering)
        assert not member.usable()
        polls = [member.poll(queue) for queue in QUEUES]
        await turns()
        assert polls == [[], []], "they wait for the lease"
        await member.sign()
        assert member.usable()
        for heard in polls:
            await member.takes(heard)


@pytest.mark.parametrize("refusing", range(SHARDS))
async def test_a_log_that_takes_records_again_under_a_lease_needs_no_other(refusing: int) -> None:
    async with started() as member:
        await member.sign()
        member.logs[refusing].refuse()
        assert not member.usable()
        await member.sign()
        assert not member.usable()
        member.logs[refusing].recover()
        await condition(member.usable)


async def test_an_election_alone_makes_no_member_unready_and_polls_wait() -> None:
    """The first log may have no leader for longer than a lease holds."""
    async with started() as member:
        await member.sign()
        member.logs[0].elect()
        await member.lapse()
        assert member.usable()
        polls = [member.poll(queue) for queue in QUEUES]
        await turns()
        assert polls == [[], []]
        member.logs[0].recover()
        await member.sign()
        for heard in polls:
            await member.takes(heard)


async def test_polls_are_refused_at_once_when_the_log_with_the_leases_refuses() -> None:
    async with started() as member:
        await member.sign()
        await member.lapse()
        member.logs[0].refuse()
        assert not member.usable()
        for heard in map(member.poll, QUEUES):
            assert isinstance(heard[0], Refused)


@pytest.mark.parametrize("refusing", range(SHARDS))
async def test_polls_that_wait_for_a_lease_end_once_a_log_refuses(refusing: int) -> None:
    """The first log has the leases; without another one only its own queues cannot be polled."""
    async with started() as member:
        await member.sign()
        await member.lapse()
        polls = [member.poll(queue) for queue in QUEUES]
        member.logs[refusing].refuse()
        await turns()
        ended = [refusing in (0, shard) for shard in range(SHARDS)]
        assert [isinstance(heard[0], Refused) if heard else False for heard in polls] == ended
        member.logs[refusing].recover()
        await condition(lambda: member.engine.answering)
        await member.sign()
        for heard, over in zip(polls, ended, strict=True):
            if not over:
                await member.takes(heard)


async def test_a_member_is_not_ready_on_which_a_poll_waited_in_vain() -> None:
    async with started() as member:
        await member.sign()
        await member.takes(member.poll(QUEUES[1]))
        member.engine._polls[QUEUES[1]].patience_s = 0.02  # type: ignore[attr-defined]
        await member.lapse()
        heard = member.poll(QUEUES[1])
        assert member.usable()
        await condition(lambda: bool(heard))
        assert isinstance(heard[0], Refused)
        assert member.engine.answering
        assert not member.usable()
        await member.sign()
        assert member.usable()


async def test_an_engine_that_was_told_of_no_lease_needs_none() -> None:
    engine, _ = echoing()
    await engine.start()
    assert engine.leased
    await engine.stop()
