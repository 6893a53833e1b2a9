"""Promise: a stop waits for queues in memory while their target takes changes."""

from __future__ import annotations

import asyncio

from grid_member.wan.draining import IDLE_S, LIMIT_S, drain
from grid_member.wan.ports import OverloadedError, UnreachableError
from tests.unit.member.wan.batches import put
from tests.unit.member.wan.fakes import FakeTarget, Source, source
from tests.unit.member.wan.virtual_time import play

KEYS = 30


async def drained(running: Source) -> tuple[int, float]:
    """Drain the queues; return what is left of them, and the seconds that it took."""
    clock = asyncio.get_running_loop().time
    began_s = clock()
    left = await drain(
        lambda: sum(map(len, running.queues.queues.values())),
        lambda: running.figures.under_way > 0,
        clock,
    )
    return left, clock() - began_s


async def begin(running: Source) -> None:
    await running.until(lambda: running.figures.connected)
    running.add(put("orders", f"key-{n}", n + 1) for n in range(KEYS))


def test_a_slow_target_is_waited_for() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=3)
        async with source(target, batch_size=10, concurrency=1) as running:
            await begin(running)
            left, took_s = await drained(running)
            assert left == 0
            assert 8 < took_s < 11
            assert running.figures.under_way == 0

    play(scene())


def test_a_target_that_asks_for_a_rest_is_waited_for() -> None:
    async def scene() -> None:
        target = FakeTarget(faults=[])
        async with source(target) as running:
            await running.until(lambda: running.figures.connected)
            target.faults = [OverloadedError("full", 4.0), OverloadedError("full", 4.0)]
            await begin(running)
            left, took_s = await drained(running)
            assert left == 0
            assert 8 < took_s < 9

    play(scene())


def test_a_connection_that_breaks_once_is_made_again() -> None:
    async def scene() -> None:
        target = FakeTarget()
        async with source(target) as running:
            await running.until(lambda: running.figures.connected)
            target.faults = [UnreachableError("a connection broke")]
            await begin(running)
            assert (await drained(running))[0] == 0

    play(scene())


def test_a_target_that_hangs_is_waited_for_up_to_the_limit() -> None:
    async def scene() -> None:
        target = FakeTarget(hangs=lambda _: True)
        async with source(target) as running:
            await begin(running)
            left, took_s = await drained(running)
            assert left == KEYS
            assert LIMIT_S <= took_s < LIMIT_S + 1

    play(scene())


def test_what_nothing_sends_is_not_waited_for() -> None:
    async def scene() -> None:
        async with source(FakeTarget(refused={"orders": 1})) as running:
            await begin(running)
            await running.until(lambda: bool(running.figures.blocked))
            left, took_s = await drained(running)
            assert left == KEYS
            assert took_s < IDLE_S + 1

    play(scene())


def test_a_target_that_is_away_is_not_waited_for() -> None:
    async def scene() -> None:
        async with source(FakeTarget(faults=[UnreachableError("gone")] * 1000)) as running:
            running.add([put("orders", "key", 1)])
            await running.until(lambda: bool(running.figures.problem))
            left, took_s = await drained(running)
            assert left == 1
            assert took_s < IDLE_S + 1

    play(scene())
