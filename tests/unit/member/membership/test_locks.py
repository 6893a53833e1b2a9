"""Locks of the whole cluster: one holder at a time, whatever comes late."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.locks import LOCK, LockedError
from grid_member.cluster.pulse import LEASE_S
from tests.unit.member.membership.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from tests.unit.member.membership.several import OneOfSeveral, Several

TIMES = 6


@pytest.mark.parametrize("seed", range(8))
async def test_no_two_members_have_a_lock_at_once(several: Several, seed: int) -> None:
    members = await several.started(4)
    chance = random.Random(seed)
    holding: list[str] = []
    most: list[int] = []

    async def contend(member: OneOfSeveral) -> None:
        for _ in range(TIMES):
            async with member.membership.locks.held("l", "test", None):
                holding.append(member.uuid)
                most.append(len(holding))
                for _ in range(chance.randrange(5)):
                    await asyncio.sleep(0)
                holding.remove(member.uuid)

    contending = asyncio.gather(*(contend(member) for member in members))
    while not contending.done():
        one = chance.choice(members)
        one.engine.slow = not one.engine.slow
        one.engine.wake()
        await several.time.settle() if chance.random() < 0.2 else await asyncio.sleep(0)
        if chance.random() < 0.02:
            for member in members:
                member.engine.heal()
            await several.time.advance(0.5)
    assert most == [1] * (TIMES * len(members))
    for member in members:
        member.engine.heal()
    await several.time.advance(2)
    assert not members[0].engine.system_items(LOCK)


async def test_a_lock_without_patience_is_refused_at_once(several: Several) -> None:
    first, second = await several.started(2)
    async with first.membership.locks.held("l", "test"):
        for member in (first, second):
            with pytest.raises(LockedError) as refused:
                async with member.membership.locks.held("l", "test"):
                    pass
            assert refused.value.refused is None
        # Another lock is another one.
        async with second.membership.locks.held("l2", "test"):
            pass
    async with second.membership.locks.held("l", "test"):
        pass


async def test_a_lock_that_cannot_be_written_tells_why(several: Several) -> None:
    first, _ = await several.started(2)
    first.engine.refusal = UNAVAILABLE
    with pytest.raises(LockedError) as refused:
        async with first.membership.locks.held("l", "test"):
            pass
    assert refused.value.refused is UNAVAILABLE


async def test_a_lock_whose_release_was_not_written_is_released_later(several: Several) -> None:
    first, second = await several.started(2)
    async with first.membership.locks.held("l", "test"):
        first.engine.refusal = UNAVAILABLE
    first.engine.refusal = None
    await several.time.settle()
    assert second.membership.locks.contenders("l")
    await several.time.advance(1)
    assert not second.membership.locks.contenders("l")


async def test_a_lock_ends_with_the_life_of_its_holder(several: Several) -> None:
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    holding = asyncio.ensure_future(_hold(second))
    await several.time.settle()
    waiting = asyncio.ensure_future(_hold(first, None))
    await several.time.advance(LEASE_S)
    assert not waiting.done()
    await second.end()
    holding.cancel()
    await several.run(_until_held(first))
    waiting.cancel()
    await asyncio.gather(waiting, holding, return_exceptions=True)


async def test_another_life_does_not_inherit_a_lock(several: Several) -> None:
    first, second = await several.started(2)
    holding = asyncio.ensure_future(_hold(second))
    await several.time.settle()
    await second.end()
    again = second.again()
    await several.run(again.start())
    async with first.membership.locks.held("l", "test"):
        pass
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_a_lock_counts_for_the_life_that_took_it(several: Several) -> None:
    first, second = await several.started(2)
    for life, count in (("former", 0), (second.membership.roll.leases()[second.uuid].life, 1)):
        content = json.dumps({"life": life, "purpose": "test"}).encode()
        first.engine.system_put(f"{LOCK}l/{second.uuid}", content, lambda _: None)
        await several.time.settle()
        assert len(first.membership.locks.contenders("l")) == count


async def _hold(member: OneOfSeveral, patience_s: float | None = 0.0) -> None:
    async with member.membership.locks.held("l", "test", patience_s):
        await asyncio.Event().wait()


async def _until_held(member: OneOfSeveral) -> None:
    def only() -> bool:
        return [c.uuid for c in member.membership.locks.contenders("l")] == [member.uuid]

    assert await member.membership.conditions.until(only, 60)
