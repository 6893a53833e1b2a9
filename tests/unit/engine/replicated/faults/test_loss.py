"""A log or its snapshot that all servers have lost while the other one is there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError, Refused
from grid_member.engine.jetstream import compaction, mismatch
from grid_member.engine.jetstream.snapshots import SnapshotEnd, SnapshotWriter, look_at
from grid_member.engine.nats.admin import consumers
from grid_member.engine.nats.admin.streams import ask_successfully, stream_config
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.state.codec import encode_record
from grid_member.engine.state.operations import Record
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import condition
from tests.unit.engine.replicated.faults.test_never_stale import MAP
from tests.unit.engine.replicated.faults.test_rescue import until_told, until_waiting
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.replicated.replicated_shard import ReplicatedShard

LONG_S = 40.0
OTHER = b"x" * 16


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SLACK_BYTES", 4096)
    monkeypatch.setattr(compaction, "CHECK_S", 0.5)
    monkeypatch.setattr(mismatch, "LOOK_S", 0.1)


def shards_of(cluster: Cluster) -> list[ReplicatedShard]:
    return [engine._cluster.replicated_shards[cluster.shard_of(MAP)] for engine in cluster.engines]


async def in_snapshot(cluster: Cluster) -> None:
    """Write until the log has been replaced by a snapshot."""
    stream = cluster.engines[0]._cluster.streams[cluster.shard_of(MAP)]
    async with asyncio.timeout(LONG_S):
        number = 0
        while True:
            number += 1
            await cluster.drivers[number % cluster.size].put(MAP, f"k{number % 9}", b"v" * 99)
            if number % 20:
                continue
            with contextlib.suppress(NatsError):
                held = await look_at(cluster.engines[0].client, stream.name)
                info = await ask_successfully(
                    cluster.engines[0].client, f"STREAM.INFO.{stream.name}"
                )
                if held.end is not None and info["state"]["first_seq"] > held.end.log > 50:
                    return


async def lost(cluster: Cluster, *, snapshots: bool) -> None:
    """Have a stream in place of another one that holds nothing."""
    stream = cluster.engines[0]._cluster.streams[cluster.shard_of(MAP)]
    stream = stream.snapshots if snapshots else stream
    client = cluster.engines[0].client
    await ask_successfully(client, f"STREAM.DELETE.{stream.name}")
    await ask_successfully(client, f"STREAM.CREATE.{stream.name}", stream_config(stream, 3, "dev"))


async def served(cluster: Cluster) -> None:
    """Wait until all members take writes and show them."""
    async with asyncio.timeout(LONG_S):
        for member, driver in enumerate(cluster.drivers):
            while await driver.put(MAP, f"new{member}", b"new") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for driver in cluster.drivers:
            for member in range(cluster.size):
                assert await driver.value(MAP, f"new{member}") == b"new"
    shards = shards_of(cluster)
    await condition(lambda: len({shard.state.sequence for shard in shards}) == 1)
    assert len({shard.state.dump() for shard in shards}) == 1


@pytest.mark.timeout(120)
async def test_a_log_in_memory_that_all_lost_is_written_back_and_members_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Cluster(3) as cluster:
        await in_snapshot(cluster)
        with caplog.at_level(logging.WARNING, "grid.engine.nats"):
            await lost(cluster, snapshots=False)
            await served(cluster)
            said = [one.message for one in caplog.records if "is written back as" in one.message]
            assert len(said) == 1
        assert await cluster.drivers[0].value(MAP, "k1") == b"v" * 99
        await cluster.engines[2].stop()
        await cluster.restart(2)
        await served(cluster)
        assert await cluster.drivers[2].value(MAP, "k1") == b"v" * 99


@pytest.mark.timeout(120)
async def test_a_log_that_is_as_long_as_the_one_that_was_lost_is_not_taken_for_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "INACTIVE_S", 1)
    async with Cluster(3) as cluster:
        await in_snapshot(cluster)
        stream = cluster.engines[0]._cluster.streams[cluster.shard_of(MAP)]
        length = max(shard.state.sequence for shard in shards_of(cluster)) + 20
        client = cluster.engines[0].client

        async def is_long() -> bool:
            for number in range(length):
                client.publish(stream.subject.encode(), encode_record(Record(OTHER, 1, number, ())))
            with contextlib.suppress(NatsError):
                info = await ask_successfully(client, f"STREAM.INFO.{stream.name}")
                return bool(info["state"]["last_seq"] >= length)
            return False

        with caplog.at_level(logging.ERROR, "grid.engine.nats"):
            await lost(cluster, snapshots=False)
            await eventually(is_long, LONG_S)
            await served(cluster)
        assert any("servers lost" in one.message for one in caplog.records)
        assert await cluster.drivers[0].value(MAP, "k1") == b"v" * 99


@pytest.mark.timeout(120)
async def test_an_image_of_another_log_is_written_anew_by_who_knows_the_state() -> None:
    async with Cluster(3) as cluster:
        await in_snapshot(cluster)
        stream = cluster.engines[0]._cluster.streams[cluster.shard_of(MAP)]
        client = cluster.engines[0].client
        await cluster.drivers[0].put(MAP, "last", b"v")
        sequence = max(shard.state.sequence for shard in shards_of(cluster))

        async def is_replaced() -> bool:
            """Have a snapshot behind the last one that knows another time of that record."""
            with contextlib.suppress(NatsError):
                held = await look_at(client, stream.name)
                writer = SnapshotWriter(client, stream.name, held)
                await writer._put(b"")
                await writer._put_end(SnapshotEnd(sequence, held.last + 1, 0, 0, log_ms=1))
                return True
            return False

        await eventually(is_replaced, LONG_S)

        async def is_written() -> bool:
            with contextlib.suppress(NatsError):
                end = (await look_at(client, stream.name)).end
                return end is not None and end.log_ms not in {None, 1}
            return False

        await eventually(is_written, LONG_S)
        await cluster.engines[2].stop()
        await cluster.restart(2)
        for member in range(cluster.size):
            assert await cluster.drivers[member].value(MAP, "k1") == b"v" * 99
        await served(cluster)


@pytest.mark.timeout(120)
async def test_an_image_that_all_lost_is_written_anew_by_who_knows_the_state() -> None:
    async with Cluster(3) as cluster:
        await in_snapshot(cluster)
        await lost(cluster, snapshots=True)
        await cluster.engines[2].stop()
        ended = asyncio.Event()

        async def write() -> None:
            while not ended.is_set():
                await cluster.drivers[0].put(MAP, "k8", b"v" * 99)
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            await cluster.restart(2)
            ended.set()
        assert await cluster.drivers[2].value(MAP, "k1") == b"v" * 99
        await served(cluster)


@pytest.mark.timeout(120)
async def test_the_lost_image_of_a_log_that_nobody_writes_to_is_written_anew() -> None:
    async with Cluster(3) as cluster:
        assert cluster.shard_of(MAP) != 0, "members write to the first one about themselves"
        await in_snapshot(cluster)
        heard_s = [shard.heard_s for shard in shards_of(cluster)]
        await lost(cluster, snapshots=True)
        stream = cluster.engines[0]._cluster.streams[cluster.shard_of(MAP)]
        client = cluster.engines[0].client

        async def is_there() -> bool:
            with contextlib.suppress(NatsError):
                return (await look_at(client, stream.name)).end is not None
            return False

        await eventually(is_there, LONG_S)
        assert [shard.heard_s for shard in shards_of(cluster)] == heard_s, "nothing was heard"
        await cluster.engines[2].stop()
        await cluster.restart(2)
        assert await cluster.drivers[2].value(MAP, "k1") == b"v" * 99
        await served(cluster)


@pytest.mark.timeout(120)
async def test_a_log_on_disks_that_all_lost_is_named_as_damage(tmp_path: Path) -> None:
    async with Cluster(3, tmp_path) as cluster:
        await in_snapshot(cluster)
        stream = f"shard-{cluster.shard_of(MAP)}"
        await lost(cluster, snapshots=False)
        told = (
            f"damaged data: records of {stream} are missing on the disks of m0, m1, m2, which are "
            "all that hold it: stop all members, keep a copy of their directories"
        )
        await until_told(cluster.engines[0], told)
        assert isinstance(await cluster.drivers[0].put(MAP, "k", b"v"), Refused)
        assert isinstance(await cluster.drivers[0].get(MAP, "k1"), Refused)
        await cluster.engines[2].stop()
        cluster.engines[2] = later = cluster.made(2)
        starting = asyncio.ensure_future(later.start())
        await until_waiting(later, told)
        later.end_waiting()
        with pytest.raises(EngineError, match="stop"):
            await starting
        assert (await look_at(cluster.engines[0].client, stream)).end is not None
