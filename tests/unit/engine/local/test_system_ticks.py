"""What is proposed in one tick for the cluster itself is applied together, or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lmdb
import pytest

from grid_member.engine.api import ClusterState, Reason, Refused
from grid_member.engine.lmdb import log as lmdb_log
from grid_member.engine.lmdb.tables import Tables
from grid_member.engine.shard import shard as shard_module
from grid_member.engine.state.operation_table import MAX_NOTE_BYTES
from grid_member.engine.state.operations import (
    MAX_OPERATIONS_PER_RECORD,
    ClusterStateChange,
    Committed,
    Record,
    SystemPut,
    SystemRemove,
)
from grid_member.engine.state.sharding import shard_of
from tests.unit.engine.drive import Driver, condition
from tests.unit.engine.lmdb.test_log import engine_at, started
from tests.unit.engine.lmdb.test_space import VALUE, filled
from tests.unit.engine.recording import Recorded, RecordingLog
from tests.unit.engine.volume import MIB, fill, needs_volumes, volume

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grid_member.engine.log.log import RecordConsumer
    from tests.unit.engine.conftest import Bench

LARGE = b"v" * MAX_NOTE_BYTES
"""No note, with any key."""
CROWDED = "a"
"""A map in the first of three shards, where the operations on the cluster itself go."""


def watched(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Return a list that gets every record that is applied in the first shard from now on.

    A shard publishes a record again that does not come back within a second, as on a slow machine;
    the state machine applies one of the copies.
    """
    state = driver.engine.shards[0].state
    records: list[Record] = []
    apply = state.apply

    def noted(sequence: int, timestamp_ms: int, record: Record) -> object:
        outcomes = apply(sequence, timestamp_ms, record)
        if outcomes is not None:
            records.append(record)
        return outcomes

    monkeypatch.setattr(state, "apply", noted)
    return records


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("crowd", [0, 10, 2 * MAX_OPERATIONS_PER_RECORD + 7])
async def test_one_tick_is_one_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, crowd: int
) -> None:
    assert shard_of(CROWDED, bench.shards) == 0
    driver = await bench.open()
    await driver.system("old", b"1")
    records = watched(driver, monkeypatch)
    puts = [driver.put(CROWDED, f"a{n}", b"v") for n in range(crowd)]
    more = [driver.put(CROWDED, f"b{n}", b"v") for n in range(crowd)]
    outcomes = await asyncio.gather(
        *puts,
        driver.change_state(ClusterState.FROZEN),
        driver.system("config/1", b"{}"),
        *more,
        driver.system("idempotency/k", b"200", 60),
        driver.system("old", None),
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    system = [record for record in records if SystemRemove("old") in record.operations]
    assert [operation for record in system for operation in record.operations] == [
        ClusterStateChange(ClusterState.FROZEN),
        SystemPut("config/1", b"{}", 0),
        SystemPut("idempotency/k", b"200", 60_000),
        SystemRemove("old"),
    ]
    assert len(system) == 1
    assert max(len(record.operations) for record in records) <= MAX_OPERATIONS_PER_RECORD


@pytest.mark.usefixtures("patient")
async def test_a_crowd_of_system_operations_stays_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await bench.open()
    records = watched(driver, monkeypatch)
    number = MAX_OPERATIONS_PER_RECORD + 100
    outcomes = await asyncio.gather(*(driver.system(f"k{n:05}", b"v") for n in range(number)))
    assert set(outcomes) == {None}
    assert [len(record.operations) for record in records if record.operations] == [number]
    assert len(driver.engine.system_items("k")) == number


@pytest.mark.usefixtures("patient")
async def test_data_that_waits_does_not_keep_a_system_value_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "MAX_WAITING_OPERATIONS", 50)
    driver = await bench.open()
    # Each shard, and the shard of what is not persistent, has its own limit.
    puts = [driver.put("m", str(n), b"v") for n in range(60)]
    outcomes = await asyncio.gather(
        *puts, *(driver.system(str(n), b"v") for n in range(50)), return_exceptions=True
    )
    assert len([outcome for outcome in outcomes[:60] if isinstance(outcome, Refused)]) == 10
    assert set(outcomes[60:]) == {None}
    outcomes = await asyncio.gather(*(driver.system(str(n), b"v") for n in range(101)))
    assert outcomes[:100] == [None] * 100
    assert isinstance(outcomes[100], Refused)
    assert outcomes[100].reason is Reason.OVERLOADED


async def test_the_durable_shard_decides(durable: Bench) -> None:
    """The volatile shard follows; a value of the same tick is there as soon as the state is."""
    driver = await durable.open()
    engine = driver.engine
    heard: list[object] = []
    engine.change_cluster_state(ClusterState.PASSIVE, heard.append)
    engine.system_put("k", b"v", heard.append)
    await condition(lambda: engine.cluster_state is ClusterState.PASSIVE)
    assert engine.system_get("k") == b"v"
    await condition(lambda: len(heard) == 2)
    assert [shard.state.cluster_state for shard in engine.shards] == [ClusterState.PASSIVE] * 2
    # Whatever the volatile shard was in.
    engine.shards[1].state._enter(ClusterState.ACTIVE)
    assert await driver.change_state(ClusterState.PASSIVE) is False
    assert engine.shards[1].state.cluster_state is ClusterState.PASSIVE


class ShortLog(RecordingLog):
    """Refuses records with system values, which is known only when they come."""

    def append(self, record: Record) -> None:
        self.refuses = any(isinstance(operation, SystemPut) for operation in record.operations)
        super().append(record)


async def test_a_state_change_goes_on_without_what_the_log_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.unit.engine.recording.RecordingLog", ShortLog)
    recorded = Recorded(monkeypatch)
    driver = await recorded.open()
    changed, put, removed = await asyncio.gather(
        driver.change_state(ClusterState.PASSIVE),
        driver.system("config/1", LARGE),
        driver.system("other", None),
    )
    assert changed is True
    assert isinstance(put, Refused)
    # A removal is applied together with the put that it came with.
    assert isinstance(removed, Refused)
    assert driver.engine.cluster_state is ClusterState.PASSIVE
    assert await driver.system("other", None) is None
    await driver.engine.stop()


class Feeding:
    """Stands between a log and its feed, and keeps what it tells."""

    def __init__(self, feed: RecordConsumer) -> None:
        self._feed = feed
        self.rejections: list[Sequence[Record]] = []

    def take_committed(self, batch: Sequence[Committed]) -> None:
        self._feed.take_committed(batch)

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        self.rejections.append(records)
        self._feed.take_rejected(records, refused)


async def test_a_log_known_to_be_full_refuses_a_value_before_it_joins_a_record(
    tmp_path: Path,
) -> None:
    driver = await started(engine_at(tmp_path, map_size_bytes=4 * MIB))
    await driver.system("before", b"1")
    await filled(driver)
    shard = driver.engine.shards[0]
    log = shard._log
    assert isinstance(log, lmdb_log.LmdbLog)
    feeding = Feeding(shard)
    log._consumer = feeding
    at_once: list[object] = []
    state = asyncio.ensure_future(driver.change_state(ClusterState.PASSIVE))
    await asyncio.sleep(0)
    driver.engine.system_put("config/1", LARGE, at_once.append)
    assert [type(outcome) for outcome in at_once] == [Refused]
    noted = asyncio.ensure_future(driver.system("idempotency/k", b"200"))
    assert await state is True
    assert await noted is None
    assert await driver.system("before", None) is None
    assert feeding.rejections == []
    assert driver.engine.cluster_state is ClusterState.PASSIVE
    await driver.engine.stop()
    again = await started(engine_at(tmp_path, map_size_bytes=4 * MIB))
    assert again.engine.cluster_state is ClusterState.PASSIVE
    assert again.engine.system_items("") == [("idempotency/k", b"200")]
    await again.engine.stop()


async def test_a_large_value_of_data_takes_no_system_operation_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Tables.append

    def small(
        tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None
    ) -> None:
        if any(len(value) > len(VALUE) for value in values):
            raise lmdb.DiskError("No space left on device")
        append(tables, sequence, values, salt)

    driver = await started(engine_at(tmp_path, wal_bytes=0))
    monkeypatch.setattr(Tables, "append", small)
    put, changed, removed = await asyncio.gather(
        driver.put("m", "k", VALUE),
        driver.change_state(ClusterState.PASSIVE),
        driver.system("k", None),
    )
    assert isinstance(put, Refused)
    assert changed is True
    assert removed is None
    await driver.engine.stop()


async def test_a_full_log_gets_so_many_notes_that_it_still_takes_removals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "MAX_FULL_NOTES_BYTES", 5_000)
    driver = await started(engine_at(tmp_path, map_size_bytes=4 * MIB))
    count = await filled(driver)
    note = b"v" * 900
    outcomes = [await driver.system(f"k{number}", note) for number in range(20)]
    taken = outcomes.index(next(outcome for outcome in outcomes if outcome is not None))
    assert 0 < taken <= 5
    assert all(isinstance(outcome, Refused) for outcome in outcomes[taken:])
    for number in range(count):
        assert await driver.remove("m", f"k{number}") is None
    async with asyncio.timeout(10):
        while isinstance(await driver.system("more", LARGE), Refused):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    # Room again is room for as many notes when it is full the next time.
    await filled(driver)
    assert await driver.system("last", note) is None
    await driver.engine.stop()


async def test_what_is_no_note_takes_its_record_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An effect that a log refuses leaves no outcome behind."""
    append = Tables.append

    def full(tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None) -> None:
        if any(len(value) > MAX_NOTE_BYTES for value in values):
            raise lmdb.DiskError("No space left on device")
        append(tables, sequence, values, salt)

    driver = await started(engine_at(tmp_path, wal_bytes=0))
    monkeypatch.setattr(Tables, "append", full)
    outcomes = await asyncio.gather(
        driver.system("config/1", LARGE), driver.system("idempotency/k", b"200")
    )
    assert [type(outcome) for outcome in outcomes] == [Refused, Refused]
    assert driver.engine.system_items("") == []
    await driver.engine.stop()


@needs_volumes
async def test_notes_on_a_disk_that_others_fill(tmp_path: Path) -> None:
    with volume(tmp_path / "disk", 12 * MIB) as disk:
        driver = await started(engine_at(disk / "data"))
        for number in range(20):
            assert await driver.put("m", f"k{number}", b"v" * 10_000) is None
        fill(disk / "ballast")
        await filled(driver)
        assert isinstance(await driver.system("config/1", b"v" * 100_000), Refused)
        for number in range(50):
            assert await driver.system(f"note/{number}", b"v" * 400) is None
            changed = ClusterState.FROZEN if number % 2 else ClusterState.ACTIVE
            assert not isinstance(await driver.change_state(changed), Refused)
        for number in range(20):
            assert await driver.remove("m", f"k{number}") is None
        await driver.engine.stop()
        again = await started(engine_at(disk / "data"))
        assert len(again.engine.system_items("note/")) == 50
        await again.engine.stop()
