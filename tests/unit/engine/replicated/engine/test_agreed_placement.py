"""Where structures of several members live while their settings change, or differ: in one shard."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.log.log import MemoryLog, wall_clock_ms
from grid_member.engine.nats.admin.streams import ask_successfully, stream_config
from grid_member.engine.nats.client.errors import NoRespondersError
from grid_member.engine.nats.client.wire import Message
from grid_member.engine.replicated import agreed_placement
from grid_member.engine.replicated.agreed_placement import (
    AGREED,
    FURTHER,
    SUBJECT,
    AgreedPlacement,
    Agreement,
    _ask_agreement,
)
from grid_member.engine.shard.shard import Shard
from grid_member.engine.state import snapshot
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import SystemPut
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.proposals import put
from tests.unit.engine.drive import condition
from tests.unit.engine.local.test_placement import structures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grid_member.engine.api import Persistence
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards

ON_DISK = structures(m=True, q=True)
IN_MEMORY = structures(m=False, q=False)


class Client:
    """A connection to the other members, which tell what they agreed on, if they did."""

    def __init__(self, told: Persistence | None) -> None:
        self._told = told
        self.asked = 0
        self.published: list[bytes] = []
        self.listening: dict[bytes, Callable[[Sequence[Message]], None]] = {}

    async def request(self, subject: bytes, *, timeout_s: float) -> Message:
        assert subject == SUBJECT
        self.asked += 1
        if self._told is None:
            raise NoRespondersError
        return Message(subject, b"", b"", json.dumps(self._told).encode(), 0)

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> None:
        self.listening[subject] = take

    def publish(self, subject: bytes, payload: bytes) -> bool:
        self.published.append(payload)
        return True


class Shards:
    """One durable shard and the one in memory."""

    ended = False
    whole = True
    only = None

    def __init__(self, told: Persistence | None = None) -> None:
        self.client = Client(told)
        self.disk, self.volatile = self._shard(), self._shard()
        self.durable = [self.disk]
        self.volatile_changed: Callable[[set[str]], None] = lambda _: None
        shards = cast("ReplicatedShards", self)
        self.maps, self.queues = (AgreedPlacement(shards, lambda _: ()) for _ in range(2))

    def durable_of(self, name: str) -> Shard:
        return self.disk

    def _shard(self) -> Shard:
        shard = Shard(MemoryLog(wall_clock_ms), uuid.uuid4().bytes, wall_clock_ms, lambda *_: None)
        shard.start(asyncio.get_running_loop())
        return shard

    async def start(self, own: Persistence) -> Agreement:
        """Return what a member goes by that starts with such settings."""
        agreement = Agreement(cast("ReplicatedShards", self), self.maps, self.queues)
        await agreement.begin(own)
        return agreement

    async def agreed(self, own: Persistence) -> Persistence:
        return kept_by(await self.start(own))

    async def propose(self, prefix: str, kept: Persistence) -> None:
        """Have another member's proposal in the log, and hear of it."""
        put = SystemPut(prefix + uuid.uuid4().hex, json.dumps(kept).encode(), 0)
        self.volatile.propose_system(put, lambda _: None)
        await condition(lambda: not self.volatile.busy)
        self.volatile_changed({put.key})

    def lose_memory(self) -> None:
        """Have what was in memory begin anew, and hear of it."""
        former, self.volatile.state = self.volatile.state, State()
        self.volatile_changed(set(former.system.by_key))


def kept_by(agreement: Agreement) -> Persistence:
    """Return what a member goes by."""
    assert agreement._kept is not None
    return agreement._kept


async def put_into(shard: Shard, name: str) -> None:
    """Have a map of that name in a shard."""
    shard.propose(put("k")._replace(name=name), lambda _: None, 1)
    await condition(lambda: not shard.busy)


async def test_of_several_proposals_the_first_counts_also_behind_an_image() -> None:
    shards = Shards()
    first = {"map": {"m": False, "default": True}, "queue": {}}
    assert await shards.agreed(first) == first
    for _ in range(3):  # as of members that began at the same moment
        later = SystemPut(AGREED + uuid.uuid4().hex, b'{"map": {"m": true}, "queue": {}}', 0)
        shards.volatile.propose_system(later, lambda _: None)
    await condition(lambda: not shards.volatile.busy)
    assert await shards.agreed({"map": {"m": True}, "queue": {}}) == first
    state = State()
    state.load(list(snapshot.parts(shards.volatile.state.snapshot())))
    shards.volatile.state = state
    assert await shards.agreed({"map": {"m": True}, "queue": {}}) == first


async def test_what_is_in_memory_only_stays_there_when_nothing_was_agreed_on_before() -> None:
    shards = Shards()
    for shard, name in ((shards.disk, "d1"), (shards.disk, "b"), (shards.volatile, "b")):
        await put_into(shard, name)
    for name in ("m1", "d2", "x"):  # by members of a version that agreed on nothing
        await put_into(shards.volatile, name)
    own = {
        "map": {"m*": True, "n*": True, "d*": True, "b": True, "x": False},
        "queue": {"m*": True},
    }
    assert await shards.agreed(own) == {
        "map": {"m*": False, "n*": True, "d*": True, "d2": False, "b": True, "x": False},
        "queue": {"m*": True},
    }


async def test_what_nothing_agreed_on_matches_is_agreed_on_when_it_is_added(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shards = Shards()
    await shards.agreed({"map": {"m": True, "w*": True}, "queue": {}})
    added = {"map": {"n": False, "w1": False, "*zz": False, "wild*": True}, "queue": {"q": True}}
    kept = {"map": {"m": True, "w*": True, "n": False}, "queue": {"q": True}}
    assert await shards.agreed(added) == kept
    told = [one.message.partition(":")[0] for one in caplog.records]
    assert told == ["the map w1 stays on disk", "the map *zz stays on disk"]
    # What is behind it in the log has no say about any of it.
    later = {"map": {"n": True, "m": False, "w*": False, "default": False}, "queue": {"q": False}}
    kept["map"]["default"] = False
    assert await shards.agreed(later) == kept
    assert await shards.agreed({"map": {"default": True}, "queue": {}}) == kept


async def test_what_is_on_disk_stays_there_with_all_that_is_meant_by_the_same_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shards = Shards()
    await put_into(shards.disk, "m")
    kept = await shards.agreed(
        {"map": {"m*": False, "n*": False, "k": True}, "queue": {"m": False}}
    )
    assert kept == {"map": {"m*": True, "n*": False, "k": True}, "queue": {"m": False}}
    assert [one.message.partition(":")[0] for one in caplog.records] == ["the map m* stays on disk"]
    maps = shards.maps
    maps.change(lambda _: None)
    maps.begin("map", lambda _: None)
    assert maps.shard("m2", persistent=False) is shards.disk
    assert maps.shard("n2", persistent=True) is shards.volatile
    assert maps.shard("unheard of", persistent=True) is shards.disk
    assert maps.shard("unheard of", persistent=False) is shards.volatile


def places(cluster: Cluster) -> set[str]:
    """Return where maps are, as far as any member knows."""
    return {
        "memory" if shard is engine._cluster.volatile else "disk"
        for engine in cluster.engines
        for shard in engine.shards
        if shard.state.maps.by_name
    }


async def test_who_runs_tells_who_starts_and_agrees_again_when_the_log_was_lost() -> None:
    running, told = {"map": {"m": True}, "queue": {}}, {"map": {"m": False}, "queue": {"q": True}}
    assert await Shards(told).agreed({"map": {"m": True}, "queue": {"q": False}}) == told

    shards = Shards()
    agreement = await shards.start(running)
    shards.client.listening[SUBJECT]([Message(SUBJECT, b"reply", b"", b"", 1)])
    assert [json.loads(one) for one in shards.client.published] == [running]
    shards.lose_memory()
    await condition(lambda: bool(shards.volatile.state.system.by_key))
    assert kept_by(agreement) == running
    assert await shards.agreed({"map": {"m": False}, "queue": {}}) == running


async def test_what_others_agreed_on_first_counts_behind_a_loss_of_the_log() -> None:
    shards = Shards()
    agreement = await shards.start({"map": {"m": True}, "queue": {}})
    shards.volatile.state = State()
    await shards.propose(FURTHER, {"map": {"n": True}, "queue": {}})  # was on its way
    first = {"map": {"m": False, "n": False}, "queue": {}}
    await shards.propose(AGREED, first)
    await condition(lambda: kept_by(agreement) == first)
    assert shards.maps.shard("m", persistent=True) is shards.volatile
    agreement.end()


async def test_blocks_that_are_added_at_run_time_are_agreed_on() -> None:
    shards = Shards()
    agreement = await shards.start({"map": {"m": True}, "queue": {}})
    assert shards.maps.shard("n", persistent=False) is shards.volatile
    await shards.propose(FURTHER, {"map": {"n": True}, "queue": {}})
    assert shards.maps.shard("n", persistent=False) is shards.disk
    agreement.extend({"map": {"m": True, "n": False}, "queue": {"q": True}})
    await condition(lambda: len(shards.volatile.state.system.by_key) == 3)
    added = {"map": {"m": True, "n": True}, "queue": {"q": True}}
    assert await shards.agreed({"map": {"n": False}, "queue": {"q": False}}) == added


@pytest.mark.timeout(120)
async def test_nothing_that_was_answered_hides_while_settings_change(tmp_path: Path) -> None:
    async with Cluster(2, tmp_path, structures=ON_DISK) as cluster:
        one, other = cluster.drivers
        await one.put("m", "k", b"0")
        await one.remove("m", "k")
        cluster.engines[0].use_structures(IN_MEMORY)
        # The other one does not know yet.
        await one.put("m", "k", b"1")
        await other.put("m", "l", b"2")
        await one.offer("q", b"1")
        await other.offer("q", b"2")
        cluster.engines[1].use_structures(IN_MEMORY)
        for driver in (one, other):
            assert [await driver.value("m", key) for key in "kl"] == [b"1", b"2"]
        assert [await driver.take("q") for driver in (other, one, other)] == [b"1", b"2", None]


@pytest.mark.timeout(120)
async def test_who_starts_agrees_with_those_that_run_though_the_log_was_lost(
    tmp_path: Path,
) -> None:
    async with Cluster(3, tmp_path, structures=ON_DISK) as cluster:
        await cluster.drivers[0].put("m", "k", b"0")
        await cluster.drivers[0].remove("m", "k")
        assert await _ask_agreement(cluster.engines[1]._cluster) == ON_DISK.persistence()
        await lose_memory(cluster)
        await cluster.engines[2].stop()
        cluster.structures = IN_MEMORY
        await cluster.restart(2)
        for number, driver in enumerate(cluster.drivers):
            await driver.put("m", f"k{number}", b"1")
        for driver in cluster.drivers:
            assert [await driver.value("m", f"k{number}") for number in range(3)] == [b"1"] * 3
        assert places(cluster) == {"disk"}


async def lose_memory(cluster: Cluster) -> None:
    """Have what was in memory begin anew, as when most servers end at the same time."""
    client, stream = cluster.engines[0].client, cluster.engines[0]._cluster.streams[-1]
    for one in (stream, stream.snapshots):
        await ask_successfully(client, f"STREAM.DELETE.{one.name}")
        await ask_successfully(client, f"STREAM.CREATE.{one.name}", stream_config(one, 3, "dev"))


@pytest.mark.timeout(180)
async def test_it_takes_effect_when_no_member_is_left_and_nothing_is_on_disk(
    tmp_path: Path,
) -> None:
    async with Cluster(2, tmp_path, structures=ON_DISK) as cluster:
        await cluster.drivers[0].put("m", "k", b"1")
        await cluster.engines[1].stop()
        cluster.structures = IN_MEMORY
        await cluster.restart(1)
        assert await cluster.drivers[1].value("m", "k") == b"1"
        for driver in cluster.drivers:
            await driver.clear("m")
        for number, driver in enumerate(cluster.drivers):
            await driver.put("m", f"k{number}", b"2")
        for driver in cluster.drivers:
            assert [await driver.value("m", key) for key in ("k0", "k1")] == [b"2", b"2"]
        assert places(cluster) == {"disk"}

        await cluster.stop()
        await cluster.start()
        assert await cluster.drivers[0].value("m", "k1") == b"2"
        await cluster.drivers[0].clear("m")
        await cluster.drivers[1].put("m", "k", b"3")
        assert await cluster.drivers[0].value("m", "k") == b"3"
        assert places(cluster) == {"disk"}
        await cluster.drivers[0].clear("m")

        await cluster.stop()
        await cluster.start()
        await cluster.drivers[0].put("m", "k", b"4")
        assert await cluster.drivers[1].value("m", "k") == b"4"
        assert places(cluster) == {"memory"}


async def test_who_does_not_know_all_that_is_on_disk_is_not_the_first_to_propose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agreed_placement, "RETRY_S", 0.01)
    shards = Shards()
    shards.whole = False
    agreement = Agreement(cast("ReplicatedShards", shards), shards.maps, shards.queues)
    assert not await agreement.await_made()
    beginning = asyncio.ensure_future(agreement.begin(IN_MEMORY.persistence()))
    await condition(lambda: shards.client.asked > 1)
    assert not beginning.done()
    await shards.propose(AGREED, ON_DISK.persistence())
    await beginning
    assert await agreement.await_made()
    assert kept_by(agreement) == ON_DISK.persistence()


async def test_who_has_a_part_tells_which_structures_are_in_the_rest() -> None:
    shards = Shards()
    await shards.agreed({"map": {"disk": True, "memory": False}, "queue": {}})
    assert not shards.maps.away("disk", persistent=True)
    shards.durable_of = _nowhere  # type: ignore[method-assign]
    assert shards.maps.away("disk", persistent=False)
    assert not shards.maps.away("memory", persistent=True)
    assert shards.maps.away("other", persistent=True)
    assert not shards.maps.away("other", persistent=False)


def _nowhere(name: str) -> Shard:
    raise IndexError
