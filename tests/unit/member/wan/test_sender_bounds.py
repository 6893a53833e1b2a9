"""Promise: a target that hangs or takes only small requests costs the source no memory and no rest.

A proxy before the target may have a limit of its own for the bodies of requests.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from typing import TYPE_CHECKING

from grid_member.wan import sender
from grid_member.wan.hello import TargetLimits
from grid_member.wan.places import Part
from tests.unit.member.wan.batches import put
from tests.unit.member.wan.fakes import FakeTarget, source
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    import pytest

    from grid_member.engine.wan.changes import Change
    from grid_member.wan.protocol import Batch

KIB = 1 << 10


def random_puts(count: int, size: int, name: str = "orders", first: int = 0) -> list[Change]:
    """Return puts of values that nothing makes smaller."""
    chance = random.Random(count)
    keys = range(first, first + count)
    return [put(name, f"key-{n}", n + 1, chance.randbytes(size)) for n in keys]


def parts_in_memory() -> int:
    gc.collect()
    return sum(isinstance(each, Part) for each in gc.get_objects())


class HungBatch:
    """Lets one batch hang: the first that has the key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.batches = 0

    def __call__(self, batch: Batch) -> bool:
        if self.batches or all(change.key != self.key for change in batch.changes):
            return False
        self.batches += 1
        return True


def test_one_batch_that_hangs_costs_no_memory_however_many_follow() -> None:
    async def scene() -> None:
        target = FakeTarget(delay_s=0.001, hangs=HungBatch("hangs"), timeout_s=3600)
        async with source(target, batch_size=10, max_delay_s=0.01, concurrency=4) as running:
            running.add([put("orders", "hangs", 1)])
            await running.until(lambda: target.at_once == 1 and bool(target.hellos))
            counted: list[int] = []
            others = parts_in_memory()
            for stamp in range(2, 2002):
                running.add([put("orders", f"key-{stamp % 7}", stamp)])
                await asyncio.sleep(0.02)
                if not stamp % 500:
                    counted.append(parts_in_memory() - others)
            assert len(target.batches) > 1000, "the others are sent"
            assert max(counted) < 20

    play(scene())


def test_a_queue_is_read_ahead_of_a_batch_that_hangs_as_far_as_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 2000
    monkeypatch.setattr(sender, "AHEAD_CHANGES", most)

    async def scene() -> None:
        hung = HungBatch("key-5")
        target = FakeTarget(delay_s=0.001, hangs=hung)
        async with source(target, batch_size=100, concurrency=4) as running:
            running.add(put("orders", f"key-{n}", n + 1) for n in range(3 * most))
            await running.until(lambda: hung.batches == 1)
            running.add([put("people", "ada", 1)])
            await asyncio.sleep(55)
            sent = sum(len(batch.changes) for batch in target.batches)
            assert most - 100 <= sent <= most + 400
            assert ("people", "ada") in target.stamps, "other maps go on"
            await running.until_empty()
            assert len(target.stamps) == 3 * most + 1

    play(scene())


def test_batches_become_smaller_for_a_proxy_with_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "grid.wan")

    async def scene() -> None:
        target = FakeTarget(body_limit=100 * KIB)
        async with source(target) as running:
            running.add(random_puts(300, 10 * KIB))
            began_s = asyncio.get_running_loop().time()
            await running.until_empty()
            assert asyncio.get_running_loop().time() - began_s < 5, "no rest is needed"
            assert len(target.hellos) == 1, "the target was there all the time"
            assert max(len(batch.changes) for batch in target.batches) >= 4
            assert not running.figures.blocked
            report = running.figures.report()
            assert report.connected
            assert "refuses larger requests (413)" in report.problem
            refused = len(target.too_large)
            assert refused < 40

            running.add(random_puts(300, 10 * KIB))
            await running.until_empty()
            assert len(target.too_large) == refused, "the limit is known by now"

            target.body_limit = 16 << 20
            await asyncio.sleep(6 * 300)
            assert running.figures.report().problem == ""
            running.add(random_puts(300, 10 * KIB))
            await running.until_empty()
            assert max(len(batch.changes) for batch in target.batches) >= 99

    play(scene())
    told = [each.message for each in caplog.records if "batches" in each.message]
    assert told.count("the target takes only smaller batches") < 10
    assert told[-1] == "the target may take batches of any size again"


def test_an_entry_that_no_request_can_bring_blocks_its_map_alone() -> None:
    async def scene() -> None:
        target = FakeTarget(body_limit=100 * KIB)
        async with source(target) as running:
            running.add(random_puts(1, 200 * KIB, "large"))
            running.add(random_puts(100, 5 * KIB))
            await running.until(lambda: len(target.stamps) == 100)
            await running.until(lambda: "large" in running.figures.blocked)
            size = 200 * KIB + len("key-0")
            assert running.figures.blocked["large"] == (
                f"an entry has {size} bytes, and the target or a proxy before it refuses a request "
                "with that entry alone (413): raise the limit for bodies of requests there"
            )
            refused = len(target.too_large)
            await asyncio.sleep(299)
            assert len(target.too_large) <= refused + 10, "it is tried every 30 seconds"
            running.add(random_puts(50, 5 * KIB, first=500))
            await running.until(lambda: len(target.stamps) == 150)
            target.body_limit = 16 << 20
            await running.until_empty()
            assert not running.figures.blocked

    play(scene())


def test_no_batch_is_larger_than_the_target_says_that_it_takes() -> None:
    async def scene() -> None:
        limits = TargetLimits(1 * KIB, 1 * KIB, 64 * KIB)
        target = FakeTarget(limits=limits, body_limit=64 * KIB)
        async with source(target) as running:
            running.add(random_puts(1000, 1 * KIB))
            await running.until_empty()
            assert target.too_large == []

    play(scene())


def test_a_map_of_which_nothing_waits_is_not_blocked_any_more() -> None:
    async def scene() -> None:
        target = FakeTarget(refused={"secret": 1})
        async with source(target) as running:
            running.add([put("secret", "key", 1)])
            await running.until(lambda: "secret" in running.figures.blocked)
            running.queues.paused = {queue.member for queue in running.queues.queues}
            await asyncio.sleep(5)
            assert "secret" in running.figures.blocked, "it waits, though nothing is sent now"
            running.queues.paused = set()
            running.queues.queues.clear()
            await asyncio.sleep(1.5)
            assert not running.figures.blocked
            target.refused = {}
            running.add([put("secret", "key", 2)])
            await asyncio.sleep(1)
            assert ("secret", "key") in target.stamps, "it does not rest"

    play(scene())
