"""What every log gives the engine's callers."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import (
    ClusterState,
    Entry,
    Item,
    MapSettings,
    QueueSettings,
    Reason,
    Refused,
)
from grid_member.engine.state.maps import Maps
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from grid_member.engine.state.operations import MapExpire, MapExpireIdle
    from tests.unit.engine.conftest import Bench

LIMIT = 500
ODD_KEYS = ["", "a/b", "ä€😀", "\x00", "\ud800", " ", "k" * 9000]


async def test_a_value_comes_back_as_it_was_put(bench: Bench) -> None:
    driver = await bench.open()
    assert await driver.get("m", "k") is None
    assert await driver.put("m", "k", b"one", "text/plain") is None
    assert await driver.get("m", "k") == Entry(b"one", "text/plain")
    assert await driver.put("m", "k", b"two") is None
    assert await driver.get("m", "k") == Entry(b"two", None)
    assert await driver.remove("m", "k") is None
    assert await driver.get("m", "k") is None
    assert await driver.remove("m", "k") is None


async def test_any_bytes_under_any_key(bench: Bench) -> None:
    driver = await bench.open()
    values = [b"", bytes(range(256)), b"x" * 3_000_000, b"\x00", b"\xff\xfe", b"{}", b"1"]
    for key, value in zip(ODD_KEYS, values, strict=True):
        await driver.put(key, key, value, "")
        await driver.offer(key, value)
    for key, value in zip(ODD_KEYS, values, strict=True):
        assert await driver.get(key, key) == Entry(value, "")
        assert await driver.take(key) == value


async def test_clear_is_atomic(bench: Bench) -> None:
    driver = await bench.open()
    for number in range(50):
        await driver.put("m", str(number), b"old")
    await driver.put("other", "k", b"stays")
    clearing = asyncio.ensure_future(driver.clear("m"))
    for _ in range(20):
        there = [await driver.value("m", str(number)) for number in range(50)]
        assert there in ([b"old"] * 50, [None] * 50)
        await asyncio.sleep(0)
    await clearing
    assert [await driver.value("m", str(n)) for n in range(50)] == [None] * 50
    assert await driver.value("other", "k") == b"stays"


async def test_operations_of_one_tick_keep_their_order(bench: Bench) -> None:
    driver = await bench.open()
    outcomes = await asyncio.gather(
        driver.put("m", "k", b"1"), driver.clear("m"), driver.put("m", "k", b"2"),
        driver.put("m", "l", b"3"), driver.remove("m", "l"),
    )  # fmt: skip
    assert set(outcomes) == {None}
    assert await driver.value("m", "k") == b"2"
    assert await driver.value("m", "l") is None


async def test_histories_of_single_keys_are_linearizable(bench: Bench) -> None:
    """Each write is a larger number: no read may be older than what was answered before it."""
    driver = await bench.open()
    chance = random.Random(7)
    answered = dict.fromkeys("abcd", 0)
    begun = dict.fromkeys("abcd", 0)

    async def write(key: str) -> None:
        for _ in range(60):
            begun[key] += 1
            mine = begun[key]
            assert await driver.put("m", key, str(mine).encode()) is None
            answered[key] = mine

    async def read() -> None:
        for _ in range(300):
            key = chance.choice("abcd")
            least = answered[key]
            value = await driver.value("m", key)
            assert least <= int(value or b"0") <= begun[key]
            await asyncio.sleep(0)

    await asyncio.gather(*(write(key) for key in "abcd"), *(read() for _ in range(4)))


async def test_more_operations_of_one_tick_than_a_record_holds(bench: Bench) -> None:
    driver = await bench.open()
    await asyncio.gather(*(driver.offer("q", str(n).encode()) for n in range(9000)))
    assert await driver.size("q") == 9000
    assert [await driver.take("q") for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_queue_is_first_in_first_out(bench: Bench) -> None:
    driver = await bench.open()
    for number in range(20):
        assert await driver.offer("q", str(number).encode()) is True
    assert await driver.size("q") == 20
    items = await asyncio.gather(*(driver.poll("q") for _ in range(20)))
    values = []
    for item in items:
        assert isinstance(item, Item)
        driver.engine.queue_confirm(item)
        values.append(item.value)
    assert values == [str(number).encode() for number in range(20)]
    assert await driver.size("q") == 0


async def test_capacity_counts_items_in_flight(bench: Bench) -> None:
    bench.structures.queues["q"] = QueueSettings(max_size=2)
    driver = await bench.open()
    assert [await driver.offer("q", b"a"), await driver.offer("q", b"b")] == [True, True]
    assert await driver.offer("q", b"c") is False
    item = await driver.poll("q")
    assert isinstance(item, Item)
    assert await driver.offer("q", b"c") is False
    driver.engine.queue_confirm(item)
    assert await driver.offer("q", b"c") is True


async def test_returned_items_stand_in_their_old_order(bench: Bench) -> None:
    driver = await bench.open()
    for value in (b"1", b"2", b"3", b"4"):
        await driver.offer("q", value)
    items = [await driver.poll("q") for _ in range(3)]
    for item in (items[1], items[0], items[2]):
        assert isinstance(item, Item)
        driver.engine.queue_return(item)
    assert [await driver.take("q") for _ in range(5)] == [b"1", b"2", b"3", b"4", None]


async def test_a_waiting_poll_is_woken_by_an_offer(bench: Bench) -> None:
    driver = await bench.open()
    first = asyncio.ensure_future(driver.take("q", 30))
    second = asyncio.ensure_future(driver.take("q", 30))
    await asyncio.sleep(0)
    assert not first.done()
    await driver.offer("q", b"1")
    await driver.offer("q", b"2")
    assert [await first, await second] == [b"1", b"2"]


async def test_a_poll_ends_when_its_time_is_over(bench: Bench) -> None:
    driver = await bench.open()
    assert await driver.poll("q", 0) is None
    assert await driver.poll("q", 0.02) is None


async def test_a_cancelled_poll_takes_nothing(bench: Bench) -> None:
    driver = await bench.open()
    heard: list[object] = []
    waiting = driver.engine.queue_poll("q", 30, heard.append)
    waiting.cancel()
    waiting.cancel()
    await driver.offer("q", b"1")
    on_its_way = driver.engine.queue_poll("q", 30, heard.append)
    on_its_way.cancel()
    assert await driver.take("q", 5) == b"1"
    assert heard == []


async def test_an_entry_is_gone_when_its_time_is_over(bench: Bench) -> None:
    bench.structures.maps["m"] = MapSettings(time_to_live_s=10)
    driver = await bench.open()
    await driver.put("m", "k", b"v")
    await driver.put("m", "renewed", b"v")
    bench.clock.advance(9.999)
    assert await driver.value("m", "k") == b"v"
    await driver.put("m", "renewed", b"w")
    bench.clock.advance(0.001)
    assert await driver.value("m", "k") is None
    assert await driver.value("m", "renewed") == b"w"
    bench.clock.advance(-5)
    await driver.put("m", "other", b"v")
    assert await driver.value("m", "renewed") == b"w"


async def test_passive_refuses_changes_and_goes_on_reading(bench: Bench) -> None:
    driver = await bench.open()
    await driver.put("m", "k", b"v")
    await driver.offer("q", b"i")
    waiting = asyncio.ensure_future(driver.poll("empty", 30))
    await asyncio.sleep(0)
    assert await driver.change_state(ClusterState.PASSIVE) is True
    assert await driver.change_state(ClusterState.PASSIVE) is False
    assert driver.engine.cluster_state is ClusterState.PASSIVE
    for outcome in (
        await waiting,
        await driver.put("m", "k", b"w"),
        await driver.remove("m", "k"),
        await driver.clear("m"),
        await driver.offer("q", b"i"),
        await driver.poll("q"),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.PASSIVE
    assert await driver.value("m", "k") == b"v"
    assert await driver.size("q") == 1
    assert await driver.change_state(ClusterState.ACTIVE) is True
    assert await driver.put("m", "k", b"w") is None
    assert await driver.take("q") == b"i"


async def test_an_item_taken_before_passive_can_land(bench: Bench) -> None:
    driver = await bench.open()
    await driver.offer("q", b"1")
    item = await driver.poll("q")
    assert isinstance(item, Item)
    await driver.change_state(ClusterState.PASSIVE)
    driver.engine.queue_return(item)
    await driver.change_state(ClusterState.ACTIVE)
    assert await driver.size("q") == 1


async def test_unknown_names_are_refused(bench: Bench) -> None:
    bench.structures.maps["m"] = None
    bench.structures.queues["q"] = None
    driver = await bench.open()
    for outcome in (
        await driver.put("m", "k", b"v"),
        await driver.get("m", "k"),
        await driver.remove("m", "k"),
        await driver.clear("m"),
        await driver.offer("q", b"v"),
        await driver.poll("q", 5),
        await driver.size("q"),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.NOT_CONFIGURED


async def test_too_many_waiting_operations_are_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.shard.shard.MAX_WAITING_OPERATIONS", LIMIT)
    driver = await bench.open()
    outcomes: list[Refused | None] = []
    for _ in range(LIMIT * 4):
        driver.engine.map_put("m", "k", b"v", None, outcomes.append)
    await condition(lambda: bool(outcomes))
    refused = next(outcome for outcome in outcomes if outcome is not None)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.OVERLOADED
    assert await driver.put("other", "k", b"v") in (None, refused)
    await condition(lambda: len(outcomes) == LIMIT * 4)
    assert outcomes.count(None) == LIMIT
    await bench.stop()


async def test_a_graceful_stop_finishes_what_was_begun(bench: Bench) -> None:
    driver = await bench.open()
    waiting = asyncio.ensure_future(driver.poll("q", 30))
    await asyncio.sleep(0)
    writes = [asyncio.ensure_future(driver.put("m", str(n), b"v")) for n in range(10)]
    await asyncio.sleep(0)
    await driver.engine.stop()
    assert not driver.engine.ready
    assert await waiting is None
    assert await asyncio.gather(*writes) == [None] * 10
    refused = await driver.put("m", "late", b"v")
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.CLOSING


async def test_a_stop_waits_for_an_item_on_its_way_to_a_client(bench: Bench) -> None:
    driver = await bench.open()
    await driver.offer("q", b"1")
    item = await driver.poll("q")
    assert isinstance(item, Item)
    stopping = asyncio.ensure_future(driver.engine.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    driver.engine.queue_confirm(item)
    await stopping
    if bench.directory is not None:
        again = await bench.open()
        assert await again.size("q") == 0


async def test_a_callback_that_raises_harms_no_other(bench: Bench) -> None:
    driver = await bench.open()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def broken(outcome: object) -> None:
        raise ValueError("no")

    driver.engine.map_put("m", "a", b"v", None, broken)
    assert await driver.put("m", "b", b"v") is None
    assert await driver.value("m", "a") == b"v"
    assert len(reported) == 1


@pytest.mark.parametrize("shards", [1, 3])
async def test_everything_is_there_after_a_restart(durable: Bench, shards: int) -> None:
    durable.shards = shards
    durable.structures.maps["ttl"] = MapSettings(time_to_live_s=10)
    durable.structures.maps["volatile"] = MapSettings(persistent=False)
    durable.structures.queues["volatile"] = QueueSettings(persistent=False)
    driver = await durable.open()
    uuid = driver.engine.member_uuid
    for key in ODD_KEYS:
        await driver.put(f"m{key}", key, key.encode("utf-8", "surrogatepass"), key[:9])
    for value in (b"1", b"2", b"3"):
        await driver.offer("q", value)
    taken = await driver.poll("q")
    await driver.put("ttl", "k", b"v")
    await driver.put("volatile", "k", b"v")
    await driver.offer("volatile", b"v")
    await driver.change_state(ClusterState.PASSIVE)
    assert isinstance(taken, Item)
    driver.engine.queue_return(taken)
    await driver.engine.stop()

    durable.clock.advance(9)
    driver = await durable.open()
    assert driver.engine.member_uuid == uuid
    assert driver.engine.cluster_state is ClusterState.PASSIVE
    assert isinstance(await driver.put("volatile", "k", b"v"), Refused)
    await driver.change_state(ClusterState.ACTIVE)
    for key in ODD_KEYS:
        expected = Entry(key.encode("utf-8", "surrogatepass"), key[:9])
        assert await driver.get(f"m{key}", key) == expected
    assert await driver.get("volatile", "k") is None
    assert await driver.size("volatile") == 0
    assert [await driver.take("q") for _ in range(4)] == [b"1", b"2", b"3", None]
    assert await driver.value("ttl", "k") == b"v"
    durable.clock.advance(1)
    assert await driver.value("ttl", "k") is None


async def test_a_round_of_expiry_that_fails_is_not_the_last(
    durable: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.01)
    failures: list[Exception] = [ValueError("planted"), ValueError("planted")]
    due = Maps.due

    def failing(self: Maps, now_ms: int, limit: int) -> list[MapExpire | MapExpireIdle]:
        if failures:
            raise failures.pop()
        return due(self, now_ms, limit)

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    monkeypatch.setattr(Maps, "due", failing)
    durable.structures.maps["m"] = MapSettings(time_to_live_s=1)
    driver = await durable.open()
    await driver.put("m", "k", b"v")
    durable.clock.advance(1)
    await condition(lambda: not driver.engine.shards[0].state.maps.by_name)
    assert len(reported) == 2


async def test_expired_entries_leave_the_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.01)
    bench.structures.maps["m"] = MapSettings(time_to_live_s=1)
    driver = await bench.open()
    await asyncio.gather(*(driver.put("m", str(n), b"v") for n in range(2500)))
    bench.clock.advance(1)
    await condition(lambda: not any(shard.state.maps.by_name for shard in driver.engine.shards))
    assert all(shard.state.maps.live_bytes == 0 for shard in driver.engine.shards)
