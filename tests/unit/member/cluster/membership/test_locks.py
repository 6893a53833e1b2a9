"""Locks of the whole cluster: one holder at a time, whatever comes late."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.cluster.membership.locks import LOCK, LockedError, removal_puts
from grid_member.cluster.membership.member_table import LEASE
from tests.unit.member.cluster.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import OneOfSeveral, Several

TIMES = 6


@pytest.mark.parametrize("seed", range(8))
async def test_no_two_members_have_a_lock_at_once(several: Several, seed: int) -> None:
    members = await several.started(4)
    chance = random.Random(seed)
    holding: list[str] = []
    most: list[int] = []

    async def contend(member: OneOfSeveral) -> None:
        for _ in range(TIMES):
            async with member.membership.locks.hold("l", "test", None):
                holding.append(member.uuid)
                most.append(len(holding))
                for _ in range(chance.randrange(5)):
                    await asyncio.sleep(0)
                holding.remove(member.uuid)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)

    contending = asyncio.gather(*(contend(member) for member in members))
    while not contending.done():
        one = chance.choice(members)
        one.engine.slow = not one.engine.slow
        one.engine.wake()
        two = chance.choice(members)
        two.engine.swapping = not two.engine.swapping
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


async def test_a_hold_does_not_end_with_the_one_before_it(several: Several) -> None:
    first, second = await several.started(2)
    locks = first.membership.locks
    async with locks.hold("l", "test"):
        first.engine.swapping = True
    await asyncio.sleep(0)
    # The end of the first hold is in the log behind the begin of this one.
    async with locks.hold("l", "test"):
        await several.time.settle()
        with pytest.raises(LockedError):
            async with second.membership.locks.hold("l", "test"):
                pass


async def test_those_who_wait_on_one_member_have_a_lock_one_at_a_time(several: Several) -> None:
    first, _ = await several.started(2)
    holding: list[int] = []
    most: list[int] = []

    async def contend(number: int) -> None:
        async with first.membership.locks.hold("l", "test", None):
            holding.append(number)
            most.append(len(holding))
            await several.time.sleep(1)
            holding.remove(number)

    contending = [asyncio.ensure_future(contend(number)) for number in range(4)]
    await several.run(asyncio.gather(*contending))
    assert most == [1] * 4


@pytest.mark.parametrize("present", [b"", b"another"], ids=["no lease", "another life's"])
async def test_a_lock_is_not_had_before_the_lease_that_it_counts_by(
    several: Several, present: bytes
) -> None:
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    key = LEASE + first.uuid
    lease = second.engine.system_get(key)
    assert lease is not None
    life = first.membership.member_table.leases()[first.uuid].incarnation.encode()
    spoilt = lease.replace(life, present) if present else None
    first.membership.heartbeat.look = lambda: None  # type: ignore[method-assign]  # not at once
    second.engine.system_put(key, spoilt, lambda _: None)
    await several.time.settle()
    had = asyncio.Event()
    holding = asyncio.ensure_future(_hold(first, 60, had))
    await several.time.settle()
    # Nobody counts the first one's yet.
    async with second.membership.locks.hold("l", "test"):
        await several.time.settle()
        assert not had.is_set()
    await several.run(had.wait())
    assert [c.uuid for c in second.membership.locks.contenders("l")] == [first.uuid]
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_of_two_without_patience_that_come_at_once_one_has_the_lock(
    several: Several,
) -> None:
    members = await several.started(3)

    async def attempt(member: OneOfSeveral) -> bool:
        try:
            async with member.membership.locks.hold("l", "test"):
                return True
        except LockedError:
            return False

    had = await several.run(asyncio.gather(*(attempt(member) for member in members)))
    assert sorted(had) == [False, False, True]


async def test_a_burial_that_comes_late_ends_no_lock_of_the_next_life(several: Several) -> None:
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    first_life = removal_puts(first.engine, second.uuid, "life")
    assert first_life == []
    holding = asyncio.ensure_future(_hold(second))
    await several.time.settle()
    life = second.membership.member_table.leases()[second.uuid].incarnation
    removed = removal_puts(first.engine, second.uuid, life)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    again = asyncio.ensure_future(_hold(second))
    await several.time.settle()
    for put in removed:
        put.begin(first.engine)(lambda _: None)
    await several.time.settle()
    assert len(removed) == len(first.membership.locks.contenders("l")) == 1
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_a_lock_without_patience_is_refused_at_once(several: Several) -> None:
    first, second = await several.started(2)
    async with first.membership.locks.hold("l", "test"):
        for member in (first, second):
            with pytest.raises(LockedError) as refused:
                async with member.membership.locks.hold("l", "test"):
                    pass
            assert refused.value.refusal is None
        # Another lock is another one.
        async with second.membership.locks.hold("l2", "test"):
            pass
    async with second.membership.locks.hold("l", "test"):
        pass


async def test_a_lock_that_cannot_be_written_tells_why(several: Several) -> None:
    first, _ = await several.started(2)
    first.engine.refusal = UNAVAILABLE
    with pytest.raises(LockedError) as refused:
        async with first.membership.locks.hold("l", "test"):
            pass
    assert refused.value.refusal is UNAVAILABLE


async def test_a_lock_whose_release_was_not_written_is_released_later(several: Several) -> None:
    first, second = await several.started(2)
    async with first.membership.locks.hold("l", "test"):
        first.engine.refusal = UNAVAILABLE
    first.engine.refusal = None
    await several.time.settle()
    assert second.membership.locks.contenders("l")
    await several.time.advance(1)
    assert not second.membership.locks.contenders("l")


@pytest.mark.parametrize("leased", [True, False], ids=["another has it", "no lease"])
async def test_nobody_waits_for_a_lock_when_its_member_stops(
    several: Several, leased: bool
) -> None:
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    if leased:
        holding = asyncio.ensure_future(_hold(second))
        await several.time.settle()
    else:
        holding = asyncio.ensure_future(asyncio.sleep(0))
        first.membership.heartbeat.beat = lambda: None  # type: ignore[method-assign]
        second.engine.system_put(LEASE + first.uuid, None, lambda _: None)
        await several.time.settle()
    waiting = asyncio.ensure_future(_hold(first, None))
    await several.time.advance(1)
    await several.run(first.membership.leave())
    await several.time.settle()
    assert waiting.done()
    assert isinstance(waiting.exception(), LockedError)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


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
    async with first.membership.locks.hold("l", "test"):
        assert len(first.membership.locks.contenders("l")) == 1
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_a_lock_counts_for_the_life_that_took_it(several: Several) -> None:
    first, second = await several.started(2)
    for life, count in (
        ("former", 0),
        (second.membership.member_table.leases()[second.uuid].incarnation, 1),
    ):
        content = json.dumps({"life": life, "purpose": "test"}).encode()
        first.engine.system_put(f"{LOCK}l/{second.uuid}/1", content, lambda _: None)
        await several.time.settle()
        assert len(first.membership.locks.contenders("l")) == count


async def _hold(
    member: OneOfSeveral, patience_s: float | None = 0.0, had: asyncio.Event | None = None
) -> None:
    async with member.membership.locks.hold("l", "test", patience_s):
        if had is not None:
            had.set()
        await asyncio.Event().wait()


async def _until_held(member: OneOfSeveral) -> None:
    def only() -> bool:
        return [c.uuid for c in member.membership.locks.contenders("l")] == [member.uuid]

    assert await member.membership.conditions.until(only, 60)
