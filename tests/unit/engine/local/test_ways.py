"""A call takes the way that was found before only as long as everything is as it was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine import open_engine
from grid_member.engine.api import ClusterState, Item, MapSettings, QueueSettings, Reason, Refused
from grid_member.engine.local.maps import MAX_WAYS
from tests.unit.engine.drive import Driver, FixedStructures, HandClock, condition

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def opened(structures: FixedStructures, clock: HandClock, path: Path | None = None) -> Driver:
    engine = open_engine(structures, path, clock=clock)
    await engine.start()
    driver = Driver(engine)
    assert await driver.put("m", "k", b"1") is None
    assert await driver.put("m", "k", b"2") is None
    assert await driver.offer("q", b"1") is True
    assert await driver.take("q") == b"1"
    return driver


async def test_new_settings_count_at_once() -> None:
    structures, clock = FixedStructures(), HandClock()
    driver = await opened(structures, clock)
    driver.engine.use_structures(FixedStructures(maps={"m": MapSettings(time_to_live_s=5)}))
    assert await driver.put("m", "k", b"3") is None
    assert await driver.put("m", "k", b"4") is None
    clock.advance(4)
    assert await driver.value("m", "k") == b"4"
    clock.advance(2)
    assert await driver.value("m", "k") is None
    driver.engine.use_structures(FixedStructures(maps={"m": None}))
    refused = await driver.put("m", "k", b"5")
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.NOT_CONFIGURED
    await driver.engine.stop()


async def test_new_settings_of_a_queue_count_at_once() -> None:
    driver = await opened(FixedStructures(), HandClock())
    assert await driver.offer("q", b"1") is True
    item = await driver.poll("q")
    assert isinstance(item, Item)
    driver.engine.use_structures(FixedStructures(queues={"q": QueueSettings(max_size=2)}))
    assert [await driver.offer("q", b"2") for _ in range(3)] == [True, False, False]
    driver.engine.queue_confirm(item)
    assert [await driver.offer("q", b"3") for _ in range(2)] == [True, False]
    driver.engine.use_structures(FixedStructures(queues={"q": None}))
    for refused in (await driver.offer("q", b"4"), await driver.poll("q")):
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.NOT_CONFIGURED
    await driver.engine.stop()


async def test_what_is_kept_of_a_queue_changes_with_the_settings(tmp_path: Path) -> None:
    clock = HandClock()
    driver = await opened(FixedStructures(), clock, tmp_path)
    assert await driver.offer("q", b"1") is True
    assert await driver.take("q") == b"1"
    await condition(lambda: "q" not in driver.engine.shards[0].state.queues.by_name)
    driver.engine.use_structures(FixedStructures(persistent=False))
    assert await driver.offer("q", b"in memory") is True
    assert await driver.offer("q", b"in memory") is True
    assert await driver.take("q") == b"in memory"
    await driver.engine.stop()
    driver = Driver(open_engine(FixedStructures(persistent=False), tmp_path, clock=clock))
    await driver.engine.start()
    assert await driver.size("q") == 0
    await driver.engine.stop()


async def test_what_is_kept_changes_with_the_settings(tmp_path: Path) -> None:
    clock = HandClock()
    driver = await opened(FixedStructures(), clock, tmp_path)
    assert await driver.clear("m") is None
    driver.engine.use_structures(FixedStructures(persistent=False))
    assert await driver.put("m", "k", b"in memory") is None
    assert await driver.put("m", "k", b"in memory") is None
    await driver.engine.stop()
    driver = Driver(open_engine(FixedStructures(persistent=False), tmp_path, clock=clock))
    await driver.engine.start()
    assert await driver.value("m", "k") is None
    await driver.engine.stop()


async def test_a_passive_cluster_refuses() -> None:
    driver = await opened(FixedStructures(), HandClock())
    for state, expected in (
        (ClusterState.PASSIVE, Reason.PASSIVE),
        (ClusterState.ACTIVE, None),
        (ClusterState.PASSIVE, Reason.PASSIVE),
    ):
        assert await driver.change_state(state) is True
        for _ in range(2):
            refused = await driver.put("m", "k", b"3")
            assert (refused and refused.reason) is expected
            for outcome in (await driver.offer("q", b"1"), await driver.poll("q")):
                assert (outcome.reason if isinstance(outcome, Refused) else None) is expected
    await driver.engine.stop()


async def test_a_member_that_stopped_refuses() -> None:
    driver = await opened(FixedStructures(), HandClock())
    await driver.engine.stop()
    for refused in (
        await driver.put("m", "k", b"3"),
        await driver.get("m", "k"),
        await driver.offer("q", b"1"),
        await driver.poll("q"),
    ):
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.CLOSING
    assert driver.engine.map_peek("m", "k") is None


async def test_ways_are_not_kept_for_every_name() -> None:
    driver = await opened(FixedStructures(), HandClock())
    for number in range(MAX_WAYS + 10):
        assert await driver.put(f"m{number}", "k", b"v") is None
        assert await driver.offer(f"q{number}", b"v") is True
    assert len(driver.engine._ways) <= MAX_WAYS
    assert len(driver.engine._queue_ways) <= MAX_WAYS
    assert await driver.take("q0") == b"v"
    assert await driver.put("m", "k", b"3") is None
    assert await driver.value("m", "k") == b"3"
    await driver.engine.stop()


async def test_the_first_shard_alone_says_that_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    structures = FixedStructures(maps={"m": MapSettings(persistent=False)})
    driver = await opened(structures, HandClock(), tmp_path)
    first, last = driver.engine.shards
    monkeypatch.setattr(last, "propose_system", lambda *_: None)  # its answer is still to come
    changing = asyncio.create_task(driver.change_state(ClusterState.PASSIVE))
    await condition(lambda: first.state.passive)
    refused = await driver.put("m", "k", b"3")
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.PASSIVE
    changing.cancel()
    await driver.engine.stop()


async def test_who_asks_again_at_once_does_not_keep_the_others_waiting() -> None:
    driver = await opened(FixedStructures(), HandClock())
    left = 1000
    turns = 0

    def again(_: object) -> None:
        nonlocal left
        left -= 1
        if left:
            driver.engine.map_put("m", "k", b"v", None, again)

    again(None)
    while left:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 900
    await driver.engine.stop()
