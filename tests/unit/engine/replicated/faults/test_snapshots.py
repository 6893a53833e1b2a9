"""Members whose logs are replaced by snapshots all the time: all hold the same data in the end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Entry, Item, Refused
from grid_member.engine.jetstream import compaction
from grid_member.engine.jetstream import snapshots as snapshot_module
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError
from tests.unit.engine.cleaned import compact_always, compactor_of
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.faults import first_held, server_of
from tests.unit.engine.drive import condition
from tests.unit.engine.replicated.faults.test_never_stale import KEY, MAP, Register
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from grid_member.engine.local.engine import LocalEngine
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard
    from tests.unit.engine.drive import Driver

SIZE = 3
HEAL_S = 60
BUSY_S = 0.5
"""Of members that are cut off: who writes at once with others gets through by chance only."""
QUEUE = "m"
"""On the same stream as the map of that name."""


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_always(monkeypatch)


def shards_of(cluster: Cluster, shard: int) -> list[ReplicatedShard]:
    return [engine._cluster.replicated_shards[shard] for engine in cluster.engines]


def number_of_shard(cluster: Cluster) -> int:
    engine = cluster.engines[0]
    return engine.shards.index(engine._cluster.durable_of(MAP))


def snapshots(cluster: Cluster, shard: int) -> int:
    return sum(compactor_of(engine, shard).snapshots for engine in cluster.engines)


def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no further snapshot be due: what purges overtake is answered that nobody knows."""
    monkeypatch.setattr(compaction, "SLACK_BYTES", 1 << 30)


def compaction_of(engine: LocalEngine, shard: int) -> bool:
    """Whether a snapshot is being made, or will be."""
    compactor = compactor_of(engine, shard)
    return compactor._task is not None or compactor._snapshots is not None


async def alike(cluster: Cluster, members: Sequence[int] = range(SIZE)) -> None:
    """Wait until all have applied everything, and see that they hold the same."""
    for shard in range(len(cluster.engines[0].shards)):
        found = [shards_of(cluster, shard)[member] for member in members]
        await condition(lambda found=found: len({one.state.sequence for one in found}) == 1)  # type: ignore[misc]
        assert len({one.state.dump() for one in found}) == 1


async def test_members_hold_the_same_behind_images(tmp_path: Path) -> None:
    async with Cluster(SIZE, tmp_path) as cluster:
        shard = number_of_shard(cluster)
        number = 0
        while snapshots(cluster, shard) < 5:
            number += 1
            driver = cluster.drivers[number % SIZE]
            await driver.put(MAP, f"k{number % 50}", b"%d" % number)
            await driver.offer(QUEUE, b"%d" % number)
            if number > 20:
                assert isinstance(await driver.take(QUEUE), bytes)
        await alike(cluster)
        await cluster.engines[0].stop()
        await cluster.drivers[1].put(MAP, "away", b"written")
        await cluster.restart(0)
        assert await cluster.drivers[0].value(MAP, "away") == b"written"
        await alike(cluster)


async def stored_bytes(cluster: Cluster, stream: str) -> int:
    """Return how large a log is with its snapshot, 0 while nobody tells."""
    client, total = cluster.engines[0].client, 0
    for name in (stream, f"{stream}-image"):
        with contextlib.suppress(NatsError):
            total += (await ask_successfully(client, f"STREAM.INFO.{name}"))["state"]["bytes"]
    return total


@pytest.mark.timeout(180)
async def test_under_load_of_all_members_garbage_is_bounded_and_the_state_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_bytes, value, keys, writers, writes = 64 * 1024, b"v" * 1024, 20, 8, 250
    monkeypatch.setattr(compaction, "SLACK_BYTES", limit_bytes)
    monkeypatch.setattr(compaction, "GARBAGE", 2)
    monkeypatch.setattr(snapshot_module, "CHUNK_BYTES", 20_000)
    async with Cluster(SIZE, tmp_path) as cluster:
        shard = number_of_shard(cluster)
        stream = f"shard-{cluster.shard_of(MAP)}"
        most_bytes = 0

        async def write(driver: Driver, writer: int) -> None:
            for number in range(writes):
                await driver.put(MAP, f"k{(number + writer) % keys}", value + b"%d" % number)

        async def load() -> None:
            async with asyncio.TaskGroup() as group:
                for writer in range(SIZE * writers):
                    group.create_task(write(cluster.drivers[writer % SIZE], writer))

        loaded = asyncio.ensure_future(load())
        while not loaded.done():
            most_bytes = max(most_bytes, await stored_bytes(cluster, stream))
        await loaded
        written_bytes = SIZE * writers * writes * len(value)
        assert snapshots(cluster, shard) >= 5
        assert most_bytes < written_bytes / 2

        async def is_small() -> bool:
            return 0 < await stored_bytes(cluster, stream) < 2 * limit_bytes

        await eventually(is_small)
        await alike(cluster)
        await cluster.engines[0].stop()
        await cluster.restart(0)  # which reads the snapshot, and the log behind it
        await alike(cluster)


@contextlib.contextmanager
def cut_from_its_server(cluster: Cluster, member: int) -> Iterator[tuple[str, int]]:
    """Let a member not reach its own server; yield that one's address.

    The server may get everything in order yet, and would feed it all before a purge.
    """
    server = server_of(cluster, member)
    address, server.client_address = server.client_address, None
    assert address is not None
    connection = cluster.engines[member].client._connection
    assert connection is not None
    connection.drop("the test has cut it")
    yield address
    server.client_address = address


async def purged_past(cluster: Cluster, member: int, stream: str, sequence: int) -> None:
    """Wait until a stream begins behind a sequence, as the server of a member knows."""
    first_sequence = 0
    async with asyncio.timeout(40):
        while first_sequence <= sequence:
            with contextlib.suppress(NatsError):
                info = await ask_successfully(
                    cluster.engines[member].client, f"STREAM.INFO.{stream}"
                )
                first_sequence = info["state"]["first_seq"]


@pytest.mark.timeout(180)
async def test_who_was_cut_off_past_a_purge_catches_up_and_shows_nothing_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "BUSY_S", BUSY_S)
    rarely(monkeypatch)
    async with Cluster(SIZE, tmp_path) as cluster:
        shard = number_of_shard(cluster)
        register = Register()
        behind = (await cluster.leader_of(MAP) + 1) % SIZE
        others = [member for member in range(SIZE) if member != behind]
        async with asyncio.TaskGroup() as group:
            group.create_task(register.write(cluster, others))
            for member in range(SIZE):
                group.create_task(register.read(cluster, member))
            await condition(lambda: register.answered >= 20)
            for number in range(4):
                await cluster.drivers[0].offer(QUEUE, b"%d" % number)
            mine = await cluster.drivers[behind].poll(QUEUE)
            assert isinstance(mine, Item)
            monkeypatch.setattr(compaction, "SLACK_BYTES", 0)
            await condition(lambda: snapshots(cluster, shard) > 0)
            first = shards_of(cluster, shard)[behind].state
            cluster.isolate(behind)
            with cut_from_its_server(cluster, behind) as address:
                await purged_past(cluster, others[0], f"shard-{shard}", first.sequence + 50)
                cluster.heal()
                async with asyncio.timeout(HEAL_S):
                    held = (cluster, behind, f"shard-{shard}", address)
                    while await asyncio.to_thread(first_held, *held) <= first.sequence + 50:
                        pass
            await condition(lambda: shards_of(cluster, shard)[behind].state is not first, HEAL_S)
            seen = register.reads[behind]
            await condition(lambda: register.reads[behind] > seen + 100, HEAL_S)
            register.ended = True
        assert register.stale == []
        found = await cluster.drivers[behind].get(MAP, KEY)
        assert isinstance(found, Entry)
        assert int(found.value) >= register.answered
        rarely(monkeypatch)
        await condition(lambda: not any(compaction_of(one, shard) for one in cluster.engines))
        await alike(cluster)
        cluster.engines[behind].queue_confirm(mine)
        await condition(lambda: not cluster.engines[behind].shards[shard].busy)
        assert [await cluster.drivers[others[0]].take(QUEUE) for _ in range(4)] == [
            b"1", b"2", b"3", None,
        ]  # fmt: skip
        await alike(cluster)


async def test_operations_of_one_who_falls_behind_again_and_again_have_their_effect_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster(SIZE) as cluster:
        shard = number_of_shard(cluster)
        late = shards_of(cluster, shard)[1]
        offered: list[bytes] = []
        unknown: set[bytes] = set()

        async def offer(member: int) -> None:
            for number in range(40):
                value = b"%d-%d" % (member, number)
                outcome = await cluster.drivers[member].offer(QUEUE, value)
                offered.append(value)
                if isinstance(outcome, Refused):
                    unknown.add(value)

        async def fall_behind() -> None:
            feed = late._log._messages  # type: ignore[attr-defined]
            for _ in range(10):
                former = late.state
                feed._complete.clear()
                late.reload()
                await condition(lambda former=former: late.state is not former)  # type: ignore[misc]
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for member in range(SIZE):
                group.create_task(offer(member))
            group.create_task(fall_behind())
        rarely(monkeypatch)
        taken: list[bytes] = []
        while (value := await cluster.drivers[2].take(QUEUE)) is not None:
            taken.append(value)
        assert len(taken) == len(set(taken))
        assert set(offered) - unknown <= set(taken) <= set(offered)
        for member in range(SIZE):
            own = [
                int(value.split(b"-")[1]) for value in taken if value.startswith(b"%d-" % member)
            ]
            assert own == sorted(own)
        await alike(cluster)
