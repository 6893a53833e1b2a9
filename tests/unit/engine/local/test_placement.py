"""Where structures live when their settings change: never away from their data."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Item, MapSettings, QueueSettings, Reason, Refused
from grid_member.engine.local.placement import MAX_WARNINGS
from tests.unit.engine.drive import Driver, FixedStructures, condition

if TYPE_CHECKING:
    from grid_member.engine.shard.shard import Shard
    from tests.unit.engine.conftest import Bench

NAMES = ("a", "b")


def structures(**persistent: bool) -> FixedStructures:
    """Return settings of the maps and queues called so."""
    return FixedStructures(
        {name: MapSettings(persistent=kept) for name, kept in persistent.items()},
        {name: QueueSettings(persistent=kept) for name, kept in persistent.items()},
    )


def shards(driver: Driver) -> tuple[Shard, Shard]:
    """Return the durable shard and the volatile one."""
    durable, volatile = driver.engine.shards
    return durable, volatile


@pytest.mark.parametrize("persistent", [True, False])
async def test_what_holds_data_stays_until_it_is_empty(durable: Bench, persistent: bool) -> None:
    durable.structures = structures(m=persistent)
    driver = await durable.open()
    before, after = shards(driver) if persistent else reversed(shards(driver))
    await driver.put("m", "k", b"1")
    driver.engine.use_structures(structures(m=not persistent))
    assert await driver.value("m", "k") == b"1"
    await driver.put("m", "l", b"2")
    assert set(before.state.maps.by_name["m"].entries) == {"k", "l"}
    assert not after.state.maps.by_name
    await driver.remove("m", "k")
    await driver.clear("m")
    assert await driver.value("m", "l") is None
    await driver.put("m", "k", b"3")
    assert await driver.value("m", "k") == b"3"
    assert not before.state.maps.by_name
    assert "m" in after.state.maps.by_name


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_start_deletes_nothing_that_is_not_persistent_any_more(
    durable: Bench, caplog: pytest.LogCaptureFixture, shards: int
) -> None:
    durable.shards = shards
    driver = await durable.open()
    await driver.put("m", "k", b"1")
    await driver.put("emptied", "k", b"1")
    await driver.offer("q", b"1")
    await driver.engine.stop()
    assert not caplog.messages

    durable.structures.persistent = False
    driver = await durable.open()
    kept = "has data on disk but data-persistence is off: it stays on disk until it is empty"
    assert sorted(caplog.messages) == [
        f"the map emptied {kept}", f"the map m {kept}", f"the queue q {kept}",
    ]  # fmt: skip
    assert await driver.value("m", "k") == b"1"
    await driver.put("m", "l", b"2")
    await driver.offer("q", b"2")
    await driver.remove("emptied", "k")
    for name in ("emptied", "new"):
        await driver.put(name, "k", b"2")
        assert await driver.value(name, "k") == b"2"
        assert name in driver.engine.shards[-1].state.maps.by_name
    await driver.offer("fresh", b"2")
    await driver.engine.stop()

    caplog.clear()
    durable.structures.persistent = True
    driver = await durable.open()
    assert not caplog.messages
    assert [await driver.value("m", key) for key in "kl"] == [b"1", b"2"]
    assert [await driver.take("q") for _ in range(3)] == [b"1", b"2", None]
    assert await driver.value("emptied", "k") is None
    assert await driver.value("new", "k") is None
    assert await driver.size("fresh") == 0


async def test_a_start_names_only_so_many(durable: Bench, caplog: pytest.LogCaptureFixture) -> None:
    driver = await durable.open()
    for number in range(MAX_WARNINGS + 3):
        await driver.put(f"m{number}", "k", b"1")
    await driver.engine.stop()
    durable.structures.persistent = False
    await durable.open()
    assert len(caplog.messages) == MAX_WARNINGS + 1
    assert caplog.messages[-1] == "the same with 3 more"


@pytest.mark.parametrize("persistent", [True, False])
async def test_an_item_in_flight_keeps_its_queue_where_it_is(
    durable: Bench, persistent: bool
) -> None:
    durable.structures = structures(q=persistent)
    driver = await durable.open()
    before, after = shards(driver) if persistent else reversed(shards(driver))
    await driver.offer("q", b"1")
    item = await driver.poll("q")
    assert isinstance(item, Item)
    driver.engine.use_structures(structures(q=not persistent))
    assert await driver.offer("q", b"2") is True
    driver.engine.queue_return(item)
    await condition(lambda: before.state.queue_size("q") == 2)
    assert await driver.size("q") == 2
    assert [await driver.take("q") for _ in range(3)] == [b"1", b"2", None]
    await condition(lambda: not before.state.queues.by_name)
    assert await driver.offer("q", b"3") is True
    assert "q" in after.state.queues.by_name
    assert await driver.take("q") == b"3"


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_waiting_poll_gets_what_comes_to_the_other_shard(
    durable: Bench, persistent: bool
) -> None:
    durable.structures = structures(q=persistent)
    driver = await durable.open()
    polls = [asyncio.ensure_future(driver.poll("q", 30)) for _ in range(3)]
    await asyncio.sleep(0)
    driver.engine.use_structures(structures(q=not persistent))
    polls.append(asyncio.ensure_future(driver.poll("q", 30)))
    for number in range(4):
        assert await driver.offer("q", b"%d" % number) is True
    async with asyncio.timeout(5):
        items = await asyncio.gather(*polls)
    values = []
    for item in items:
        assert isinstance(item, Item)
        values.append(item.value)
        driver.engine.queue_confirm(item)
    assert values == [b"0", b"1", b"2", b"3"]


async def test_a_poll_of_a_queue_that_is_none_any_more_ends(durable: Bench) -> None:
    driver = await durable.open()
    poll = asyncio.ensure_future(driver.poll("q", 30))
    other = asyncio.ensure_future(driver.poll("r", 30))
    await asyncio.sleep(0)
    gone = FixedStructures()
    gone.queues["q"] = None
    driver.engine.use_structures(gone)
    outcome = await poll
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.NOT_CONFIGURED
    assert not other.done()
    await driver.offer("r", b"1")
    assert isinstance(await other, Item)


@pytest.mark.parametrize("persistent", [True, False])
async def test_what_is_on_its_way_when_settings_change_is_not_left_alone(
    durable: Bench, persistent: bool
) -> None:
    durable.structures = structures(m=persistent, q=persistent)
    driver = await durable.open()
    first = [driver.put("m", "k", b"1"), driver.offer("q", b"1")]
    begun = [asyncio.ensure_future(operation) for operation in first]
    await asyncio.sleep(0)  # proposed, not yet on their way
    driver.engine.use_structures(structures(m=not persistent, q=not persistent))
    await asyncio.gather(driver.put("m", "l", b"2"), driver.offer("q", b"2"), *begun)
    assert [await driver.value("m", key) for key in "kl"] == [b"1", b"2"]
    assert await driver.size("q") == 2
    assert [await driver.take("q") for _ in range(3)] == [b"1", b"2", None]


class Crowd:
    """Sends operations without waiting for any, and knows what they come to."""

    def __init__(self, driver: Driver, chance: random.Random) -> None:
        self.driver = driver
        self.chance = chance
        self.maps: dict[str, dict[str, bytes]] = {name: {} for name in NAMES}
        self.queues: dict[str, deque[bytes]] = {name: deque() for name in NAMES}
        self.refused: list[Refused] = []
        self.moves = 0
        self._waiting = 0
        self._number = 0

    @property
    def over(self) -> bool:
        return self._waiting == 0

    def send(self) -> None:
        engine, name, key = self.driver.engine, self.chance.choice(NAMES), self.chance.choice("kl")
        self._number += 1
        value = b"%d" % self._number
        self._waiting += 1
        match self.chance.choice(["put", "remove", "remove", "clear", "offer", "take", "take"]):
            case "put":
                self.maps[name][key] = value
                engine.map_put(name, key, value, None, self._done)
            case "remove":
                self.maps[name].pop(key, None)
                engine.map_remove(name, key, self._done)
            case "clear":
                self.maps[name].clear()
                engine.map_clear(name, self._done)
            case "offer":
                self.queues[name].append(value)
                engine.queue_offer(name, value, None, self._done)
            case _:
                engine.queue_poll(name, 0, self._taken)

    def _done(self, outcome: object) -> None:
        self._waiting -= 1
        if isinstance(outcome, Refused):
            self.refused.append(outcome)

    def _taken(self, outcome: Item | Refused | None) -> None:
        self._done(outcome)
        if isinstance(outcome, Item):
            # First in, first out, across every move.
            assert outcome.value == self.queues[outcome.queue].popleft()
            self.driver.engine.queue_confirm(outcome)

    def change(self) -> None:
        """Give the structures any shards."""
        self.driver.engine.use_structures(
            structures(**{name: self.chance.random() < 0.5 for name in NAMES})
        )

    def check(self) -> None:
        """No structure is in two shards."""
        for one, other in (
            [set(shard.state.maps.by_name) for shard in shards(self.driver)],
            [set(shard.state.queues.by_name) for shard in shards(self.driver)],
        ):
            assert not one & other


@pytest.mark.parametrize("seed", range(12))
async def test_no_structure_is_ever_in_two_shards(durable: Bench, seed: int) -> None:
    chance = random.Random(seed)
    durable.structures = structures(a=True, b=False)
    driver = await durable.open()
    crowd = Crowd(driver, chance)
    seen: set[tuple[str, int]] = set()
    steps = 0
    # On a slow disk it takes longer until the maps have moved.
    while (steps := steps + 1) <= 600 or len(seen) < 2 * len(NAMES):
        for _ in range(chance.randrange(4)):
            crowd.send()
        if chance.random() < 0.1:
            crowd.change()
        if chance.random() < 0.6:
            await asyncio.sleep(chance.choice([0, 0, 0, 0.001]))
        crowd.check()
        for number, shard in enumerate(shards(driver)):
            seen |= {(name, number) for name in shard.state.maps.by_name}
    await condition(lambda: crowd.over and not any(shard.busy for shard in driver.engine.shards))
    crowd.check()
    assert crowd.refused == []
    for name in NAMES:
        assert await driver.size(name) == len(crowd.queues[name])
        for key in "kl":
            assert await driver.value(name, key) == crowd.maps[name].get(key)
    # The maps did move.
    assert seen == {(name, shard) for name in NAMES for shard in (0, 1)}
    assert not driver.engine._maps._strays
    assert not driver.engine._queues._strays
