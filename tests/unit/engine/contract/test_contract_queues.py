"""What every log gives the callers of queues, beyond the basics."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Item, QueueSettings, Refused
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
)
from tests.unit.engine.drive import condition
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.recording import ticks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.engine.conftest import Bench
    from tests.unit.engine.drive import Driver

POLLS = 5000
ONE, OTHER = b"1" * 16, b"2" * 16


def nothing_is_left(driver: Driver) -> bool:
    shards = driver.engine.shards
    queues = [shard.state.queues for shard in shards]
    return not any(one.by_name or one.live_bytes for one in queues)


def nothing_flies(driver: Driver) -> bool:
    queues = [shard.state.queues.by_name.values() for shard in driver.engine.shards]
    return not any(queue.in_flight for found in queues for queue in found)


async def test_thousands_of_polls_wait_and_are_served_in_order(bench: Bench) -> None:
    driver = await bench.open()
    served: list[tuple[int, bytes]] = []

    def wait(number: int) -> None:
        def done(outcome: object) -> None:
            assert isinstance(outcome, Item)
            driver.engine.queue_confirm(outcome)
            served.append((number, outcome.value))

        polls.append(driver.engine.queue_poll("q", 600, done))

    polls: list[object] = []
    for number in range(POLLS):
        wait(number)
    await asyncio.gather(*(driver.offer("q", str(n).encode()) for n in range(POLLS)))
    await condition(lambda: len(served) == POLLS)
    assert served == [(number, str(number).encode()) for number in range(POLLS)]
    await condition(lambda: nothing_is_left(driver))


async def test_polls_that_leave_lose_no_item_and_no_order(bench: Bench) -> None:
    """Cancelled while they wait, and while their item is on its way."""
    driver = await bench.open()
    chance = random.Random(3)
    received: list[bytes] = []

    def done(outcome: object) -> None:
        if isinstance(outcome, Item):
            driver.engine.queue_confirm(outcome)
            received.append(outcome.value)

    for start in range(0, 1000, 50):
        polls = [driver.engine.queue_poll("q", 600, done) for _ in range(80)]
        for poll in polls[60:]:
            poll.cancel()
        offers = [driver.offer("q", str(start + n).encode()) for n in range(50)]
        offered = asyncio.gather(*offers)
        await ticks(chance.randint(0, 3))
        for poll in polls[:60]:
            if chance.random() < 0.5:
                poll.cancel()
        await offered
        for poll in polls:
            poll.cancel()
    while len(received) < 1000:
        value = await driver.take("q", 5)
        assert value is not None
        received.append(value)
    assert sorted(map(int, received)) == list(range(1000))
    assert await driver.size("q") == 0
    await condition(lambda: nothing_is_left(driver))


async def test_who_does_not_wait_leaves_an_item_to_who_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it is there only because a take was refused, and nobody has asked for it since."""
    driver = await bench.open()
    outcomes: list[Item | Refused | None] = []
    for _ in range(2):
        driver.engine.queue_poll("q", 600, outcomes.append)
    data = bench.holding(driver)
    await condition(lambda: "q" in data._polls and len(data._polls["q"]._waiting) == 2)
    with monkeypatch.context() as crowd:
        offered = asyncio.Event()

        def done(_: object) -> None:
            crowd.setattr("grid_member.engine.shard.shard.MAX_WAITING_OPERATIONS", 0)
            offered.set()

        data.queue_offer("q", b"v", None, done)
        await offered.wait()
    await condition(lambda: bool(outcomes))
    assert isinstance(outcomes[0], Refused)
    assert await driver.poll("q") is None
    await condition(lambda: len(outcomes) == 2)
    item = outcomes[1]
    assert isinstance(item, Item)
    assert item.value == b"v"
    driver.engine.queue_confirm(item)


async def test_any_history_is_that_of_a_deque(bench: Bench) -> None:
    bench.structures.queues["q"] = QueueSettings(max_size=8)
    driver = await bench.open()
    chance = random.Random(11)
    waiting: deque[int] = deque()
    in_flight: dict[int, Item] = {}
    for number in range(600):
        kind = chance.choice(["offer", "offer", "offer", "poll", "poll", "confirm", "return"])
        if kind == "offer":
            accepted = len(waiting) + len(in_flight) < 8
            assert await driver.offer("q", str(number).encode()) is accepted
            if accepted:
                waiting.append(number)
        elif kind == "poll":
            item = await driver.poll("q")
            if waiting:
                assert isinstance(item, Item)
                assert item.value == str(waiting[0]).encode()
                in_flight[waiting.popleft()] = item
            else:
                assert item is None
        elif in_flight:
            landed = chance.choice(sorted(in_flight))
            if kind == "confirm":
                driver.engine.queue_confirm(in_flight.pop(landed))
            else:
                driver.engine.queue_return(in_flight.pop(landed))
                waiting = deque(sorted([*waiting, landed]))
            await condition(lambda: not any(shard.busy for shard in driver.engine.shards))
        assert await driver.size("q") == len(waiting)
    for item in in_flight.values():
        driver.engine.queue_confirm(item)


async def test_a_confirm_makes_room_for_the_offer_behind_it(bench: Bench) -> None:
    bench.structures.queues["q"] = QueueSettings(max_size=1)
    driver = await bench.open()
    assert await driver.offer("q", b"1") is True
    item = await driver.poll("q")
    assert isinstance(item, Item)
    driver.engine.queue_confirm(item)
    assert await driver.offer("q", b"2") is True


async def test_confirms_share_the_record_of_the_takes_behind_them(bench: Bench) -> None:
    driver = await bench.open()
    for value in (b"1", b"2", b"3"):
        await driver.offer("q", value)
    items = [await driver.poll("q") for _ in range(2)]
    shard = next(shard for shard in driver.engine.shards if "q" in shard.state.queues.by_name)
    await condition(lambda: not shard.busy)
    sequence = shard.state.sequence
    for item in items:
        assert isinstance(item, Item)
        driver.engine.queue_confirm(item)
    await asyncio.sleep(0)  # a client that reads its answer and asks again
    assert await driver.take("q") == b"3"
    # Asked of another member the confirms come with one message and the take with the next, which
    # its server may hand over a moment later.
    records = {1, 2} if bench.asks else {1}
    assert shard.state.sequence - sequence in records


async def test_a_queue_that_is_empty_is_nowhere(bench: Bench) -> None:
    bench.structures.queues["none"] = QueueSettings(max_size=0)
    driver = await bench.open()
    assert await driver.offer("none", b"v") is False
    assert await driver.poll("never") is None
    assert await driver.size("never") == 0
    await driver.offer("q", b"1")
    item = await driver.poll("q")
    assert isinstance(item, Item)
    driver.engine.queue_return(item)
    assert await driver.take("q", 5) == b"1"
    await condition(lambda: nothing_is_left(driver))


async def test_a_taken_item_comes_back_after_a_crash_and_a_confirmed_one_never(
    durable: Bench, tmp_path: Path
) -> None:
    durable.structures.queues["q"] = QueueSettings(max_size=3)
    driver = await durable.open()
    for value in (b"1", b"2", b"3"):
        await driver.offer("q", value)
    for number, expected in enumerate([b"1", b"1", b"2"]):
        item = await driver.poll("q")
        assert isinstance(item, Item)
        assert item.value == expected
        if number == 1:
            driver.engine.queue_confirm(item)
            await condition(partial(nothing_flies, driver))
        await condition(lambda driver=driver: not driver.engine.shards[0].busy)  # type: ignore[misc]
        assert durable.directory is not None
        shutil.copytree(durable.directory, tmp_path / f"copy-{number}")
        durable.directory = tmp_path / f"copy-{number}"
        driver.engine.queue_confirm(item)  # so that its stop does not wait
        driver = await durable.open()
    assert await driver.size("q") == 2
    assert [await driver.offer("q", b"4"), await driver.offer("q", b"5")] == [True, False]
    assert [await driver.take("q") for _ in range(4)] == [b"2", b"3", b"4", None]


def test_only_its_taker_lands_an_item() -> None:
    """A confirm that comes late must not touch an item that somebody else has by now."""
    state = State()
    state.apply(1, 0, Record(ONE, 1, 1, (QueueOffer("q", b"v", None, 9), QueueTake("q"))))
    item_id = next(iter(state.queues.by_name["q"].in_flight))
    deliveries = (QueueConfirm("q", item_id, 0), QueueReturn("q", item_id, 0))
    assert state.apply(2, 0, Record(OTHER, 1, 1, deliveries)) == [None, None]
    assert list(state.queues.by_name["q"].in_flight) == [item_id]
    state.apply(3, 0, Record(ONE, 2, 1, ()))
    assert state.apply(4, 0, Record(ONE, 1, 2, deliveries)) is None
    assert state.queue_size("q") == 1
    state = through_a_snapshot(state)
    outcomes = state.apply(
        5, 0, Record(OTHER, 1, 2, (QueueTake("q"), QueueConfirm("q", item_id, 0)))
    )
    assert outcomes == [Item(b"v", None, "q", item_id, 5 << 16), None]
    assert not state.queues.by_name
    assert state.live_bytes == 0


@pytest.mark.parametrize("retries", [1, 3])
def test_a_retried_record_takes_and_offers_once(retries: int) -> None:
    state = State()
    offer = Record(ONE, 1, 1, (QueueOffer("q", b"1", None, 9), QueueOffer("q", b"2", None, 9)))
    take = Record(ONE, 1, 2, (QueueTake("q"),))
    sequence = 0
    for record in (offer, take):
        for retry in range(retries + 1):
            sequence += 1
            outcomes = state.apply(sequence, 0, record)
            assert (outcomes is None) is (retry > 0)
    assert state.queue_size("q") == 1
    assert len(state.queues.by_name["q"].in_flight) == 1


async def test_before_a_stop_polls_end_and_later_ones_wait_for_nothing(bench: Bench) -> None:
    driver = await bench.open()
    waiting = [asyncio.ensure_future(driver.poll(name, 3600)) for name in ("q", "q", "p")]
    await driver.offer("other", b"there")  # behind which the polls have begun to wait
    driver.engine.end_polls()
    assert await asyncio.gather(*waiting) == [None] * 3
    assert await driver.poll("q", 3600) is None
    assert await driver.poll("new", 3600) is None
    assert await driver.put("m", "k", b"v") is None
    await driver.offer("q", b"item")
    item = await driver.poll("q", 3600)
    assert isinstance(item, Item)
    assert item.value == b"item"
    driver.engine.queue_confirm(item)  # so that its stop does not wait
