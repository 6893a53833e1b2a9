"""The system store as the engine offers it, over every log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import ClusterState, EngineError, Reason, Refused
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.local.expiry_rounds import ExpiryRounds
from grid_member.engine.state import system
from grid_member.engine.state.operations import SystemExpire
from tests.unit.engine.drive import Driver, FixedStructures, condition
from tests.unit.engine.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.log.log import Clock
    from tests.unit.engine.conftest import Bench

DAY_S = 86_400


async def test_values_come_back_in_the_order_of_their_keys(bench: Bench) -> None:
    driver = await bench.open()
    engine = driver.engine
    assert engine.system_get("license") is None
    assert engine.system_items("") == []
    for key in ("config/2", "license", "config/10", "config/1", "ä", "\ud800"):
        assert await driver.system(key, key.encode("utf-8", "surrogatepass")) is None
    assert await driver.system("config/2", b"") is None
    assert engine.system_get("license") == b"license"
    assert engine.system_items("config/") == [
        ("config/1", b"config/1"),
        ("config/10", b"config/10"),
        ("config/2", b""),
    ]
    assert [key for key, _ in engine.system_items("")][-2:] == ["ä", "\ud800"]
    assert await driver.system("license", None) is None
    assert await driver.system("license", None) is None
    assert engine.system_get("license") is None


async def test_it_works_in_every_cluster_state(bench: Bench) -> None:
    driver = await bench.open()
    for state in ClusterState:
        await driver.change_state(state)
        assert await driver.system("k", state.value.encode()) is None
        assert driver.engine.system_get("k") == state.value.encode()
        assert await driver.system("k", None) is None
        assert driver.engine.system_get("k") is None


async def test_a_value_with_a_time_to_live_ends(bench: Bench) -> None:
    driver = await bench.open()
    await driver.system("a", b"1", DAY_S)
    await driver.system("b", b"2")
    bench.clock.advance(DAY_S - 1)
    assert driver.engine.system_get("a") == b"1"
    bench.clock.advance(1)
    assert driver.engine.system_get("a") is None
    assert driver.engine.system_items("") == [("b", b"2")]
    # The clock may be set back; what the log knows to be over stays so.
    await driver.system("c", b"3")
    bench.clock.advance(-10)
    assert driver.engine.system_get("a") is None
    await driver.system("a", b"4", DAY_S)
    assert driver.engine.system_get("a") == b"4"


async def test_what_is_over_leaves_the_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.01)
    driver = await bench.open()
    await driver.system("a", b"1", 5)
    await driver.change_state(ClusterState.PASSIVE)
    held = driver.engine.shards[0].state.system.by_key
    assert "a" in held
    bench.clock.advance(5)
    await condition(lambda: not held)


async def test_nothing_is_there_before_the_start_and_all_after_the_stop(bench: Bench) -> None:
    engine = open_engine(FixedStructures(), bench.directory, clock=bench.clock)
    assert engine.system_get("k") is None
    assert engine.system_items("") == []
    driver = Driver(engine)
    refused = await driver.system("k", b"v")
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.CLOSING
    await engine.start()
    await driver.system("k", b"v")
    await engine.stop()
    assert engine.system_get("k") == b"v"
    assert engine.system_items("") == [("k", b"v")]
    for value in (b"w", None):
        refused = await driver.system("k", value)
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.CLOSING


@pytest.mark.parametrize("shards", [1, 3])
async def test_it_is_there_after_a_restart(durable: Bench, shards: int) -> None:
    durable.shards = shards
    driver = await durable.open()
    await driver.system("a", b"1")
    await driver.system("b", b"2", 10)
    await driver.system("c", b"3")
    await driver.system("c", None)
    await driver.engine.stop()
    durable.clock.advance(9)
    driver = await durable.open()
    assert driver.engine.system_items("") == [("a", b"1"), ("b", b"2")]
    durable.clock.advance(1)
    assert driver.engine.system_items("") == [("a", b"1")]


async def test_it_is_there_after_cleaning(durable: Bench, tmp_path: Path) -> None:
    def open_log(path: Path, shard: int, clock: Clock) -> LmdbLog:
        return LmdbLog(path, shard, clock, compaction_slack_bytes=20_000)

    async def started() -> Driver:
        directory = tmp_path / "cleaned"
        engine = open_engine(FixedStructures(), directory, clock=durable.clock, open_log=open_log)
        await engine.start()
        return Driver(engine)

    driver = await started()
    await driver.system("first", b"1")
    await driver.system("ends", b"2", 60)
    await driver.change_state(ClusterState.FROZEN)
    await driver.change_state(ClusterState.PASSIVE, transient=True)
    sequence = 0
    for number in range(400):
        await driver.system(f"k{number % 7}", b"%d" % number * 100)
        sequence = driver.engine.shards[0].state.sequence
    before = driver.engine.system_items("")
    assert len(before) == 9
    await driver.engine.stop()
    again = await started()
    # Most of it was read from a snapshot.
    log = again.engine.shards[0]._log
    assert isinstance(log, LmdbLog)
    assert log._stored_bytes < sequence * 100
    assert again.engine.cluster_state is ClusterState.FROZEN
    assert again.engine.system_items("") == before
    durable.clock.advance(60)
    assert [key for key, _ in again.engine.system_items("e")] == []
    await again.engine.stop()


async def test_too_much_is_refused_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "MAX_SYSTEM_BYTES", 10_000)
    driver = await bench.open()
    assert await driver.system("a", b"x" * 9000, 5) is None
    at_once: list[object] = []
    driver.engine.system_put("b", b"x" * 2000, at_once.append)
    assert [type(outcome) for outcome in at_once] == [Refused]
    # Together they are too much, which only the state machine finds.
    both = await asyncio.gather(driver.system("b", b"x" * 600), driver.system("c", b"x" * 600))
    assert both[0] is None
    assert isinstance(both[1], Refused)
    assert both[1].reason is Reason.OVERLOADED
    bench.clock.advance(5)
    assert await driver.system("c", b"x" * 9000) is None


async def test_expiry_is_proposed_for_what_is_over_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.005)
    looks, look_once = 0, ExpiryRounds._look_once

    def counted(rounds: ExpiryRounds) -> bool:
        nonlocal looks
        looks += 1
        return look_once(rounds)

    monkeypatch.setattr(ExpiryRounds, "_look_once", counted)
    recorded = Recorded(monkeypatch)
    driver = await recorded.open()
    await driver.system("a", b"1", 5)
    await condition(lambda: looks > 3)
    assert not recorded.operations(SystemExpire)
    recorded.clock.advance(5)
    await condition(lambda: not driver.engine.shards[0].state.system.by_key)
    seen = looks
    await condition(lambda: looks > seen + 3)
    assert len(recorded.operations(SystemExpire)) == 1
    await driver.engine.stop()


async def test_the_start_shows_the_store_before_it_does_anything(durable: Bench) -> None:
    """What is added to the configuration at run time must be known before anything is placed."""
    driver = await durable.open()
    await driver.system("config/1", b"m stays")
    await driver.put("m", "k", b"v")
    await driver.offer("q", b"i")
    await driver.engine.stop()
    engine = open_engine(FixedStructures(persistent=False), durable.directory, clock=durable.clock)

    def replayed() -> None:
        assert not engine.ready
        assert engine.system_items("config/") == [("config/1", b"m stays")]
        engine.use_structures(FixedStructures())

    await engine.start(replayed)
    driver = Driver(engine)
    assert await driver.value("m", "k") == b"v"
    assert await driver.take("q") == b"i"
    await engine.stop()


async def test_a_start_that_is_refused_releases_the_directory(durable: Bench) -> None:
    driver = await durable.open()
    await driver.system("config/1", b"1")
    await driver.engine.stop()

    def replayed() -> None:
        raise EngineError("no")

    engine = open_engine(FixedStructures(), durable.directory, clock=durable.clock)
    with pytest.raises(EngineError, match="no"):
        await engine.start(replayed)
    assert engine.system_get("config/1") is None
    await engine.stop()
    again = await durable.open()
    assert again.engine.system_get("config/1") == b"1"
