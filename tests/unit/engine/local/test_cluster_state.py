"""The cluster state: what it does to data, and which one a restart begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, Entry, Item, MapSettings, Reason, Refused
from tests.unit.engine.drive import FixedStructures

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


@pytest.mark.parametrize(
    "state", [state for state in ClusterState if state is not ClusterState.PASSIVE]
)
async def test_every_state_but_passive_allows_every_call(bench: Bench, state: ClusterState) -> None:
    driver = await bench.open()
    await driver.change_state(state)
    assert driver.engine.cluster_state is state
    assert await driver.put("m", "k", b"v", "t") is None
    assert await driver.get("m", "k") == Entry(b"v", "t")
    assert await driver.remove("m", "k") is None
    await driver.put("m", "l", b"v")
    assert await driver.clear("m") is None
    assert await driver.value("m", "l") is None
    assert await driver.offer("q", b"1") is True
    assert await driver.size("q") == 1
    item = await driver.poll("q")
    assert isinstance(item, Item)
    driver.engine.queue_return(item)
    assert await driver.take("q", 30) == b"1"


@pytest.mark.parametrize("transient", [True, False])
async def test_passive_refuses_writes_and_allows_reads(bench: Bench, transient: bool) -> None:
    driver = await bench.open()
    await driver.put("m", "k", b"v")
    await driver.offer("q", b"1")
    assert await driver.change_state(ClusterState.PASSIVE, transient=transient) is True
    assert await driver.change_state(ClusterState.PASSIVE, transient=transient) is False
    for outcome in (
        await driver.put("m", "k", b"w"),
        await driver.remove("m", "k"),
        await driver.clear("m"),
        await driver.offer("q", b"2"),
        await driver.poll("q"),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.PASSIVE
    assert await driver.value("m", "k") == b"v"
    assert await driver.size("q") == 1
    assert await driver.change_state(ClusterState.ACTIVE) is True
    assert await driver.put("m", "k", b"w") is None
    assert await driver.take("q") == b"1"


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("state", ClusterState)
async def test_a_restart_begins_with_the_state_that_was_set(
    durable: Bench, state: ClusterState, shards: int
) -> None:
    durable.shards = shards
    driver = await durable.open()
    await driver.change_state(state)
    for _ in range(2):
        await driver.engine.stop()
        driver = await durable.open()
        assert [shard.state.cluster_state for shard in driver.engine.shards] == [state] * (
            shards + 1
        )


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("before", ClusterState)
async def test_a_restart_forgets_a_transient_state(
    durable: Bench, before: ClusterState, shards: int
) -> None:
    durable.shards = shards
    driver = await durable.open()
    await driver.change_state(before)
    outcome = await driver.change_state(ClusterState.PASSIVE, transient=True)
    assert outcome is (before is not ClusterState.PASSIVE)
    assert driver.engine.cluster_state is ClusterState.PASSIVE
    for _ in range(2):
        await driver.engine.stop()
        driver = await durable.open()
        assert [shard.state.cluster_state for shard in driver.engine.shards] == [before] * (
            shards + 1
        )


async def test_a_transient_state_that_is_set_as_well_stays(durable: Bench) -> None:
    driver = await durable.open()
    await driver.change_state(ClusterState.PASSIVE, transient=True)
    assert await driver.change_state(ClusterState.PASSIVE) is False
    await driver.engine.stop()
    driver = await durable.open()
    assert driver.engine.cluster_state is ClusterState.PASSIVE


async def test_passive_keeps_what_is_no_longer_persistent(durable: Bench) -> None:
    driver = await durable.open()
    durable.structures.maps["ttl"] = MapSettings(time_to_live_s=100)
    await driver.put("m", "k", b"v")
    await driver.put("ttl", "k", b"v")
    await driver.offer("q", b"v")
    await driver.change_state(ClusterState.PASSIVE)
    await driver.engine.stop()
    durable.structures = FixedStructures(persistent=False)
    driver = await durable.open()
    assert driver.engine.cluster_state is ClusterState.PASSIVE
    assert await driver.value("m", "k") == await driver.value("ttl", "k") == b"v"
    assert await driver.size("q") == 1
