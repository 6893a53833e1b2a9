"""Members that lost the majority of their data for good: with real servers and disks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError, NotYetError
from grid_member.engine.nats.admin import peer_removal as rescue
from grid_member.engine.nats.admin.peer_removal import take_off_lost
from grid_member.engine.nats.admin.peers import Peers, meta_cluster, peer_id, peers
from grid_member.engine.nats.admin.streams import copies_of
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicas import watch
from grid_member.engine.replicated.engine import ClusterEngine
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import Driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from grid_member.engine.nats.client.client import NatsClient

pytestmark = pytest.mark.timeout(180)
STEP_S = 60.0
MAPS = ("orders", "users", "carts", "notes", "ids")


async def until_waiting(engine: ClusterEngine, reason: str) -> None:
    """Wait until the start says that it waits for that."""
    ends_s = time.monotonic() + STEP_S
    while reason not in (engine.waiting or ""):
        assert time.monotonic() < ends_s, engine.waiting
        await asyncio.sleep(0.05)


async def until_silent(system: NatsClient) -> None:
    """Wait until those that vote have not heard of one for a while."""
    ends_s = time.monotonic() + STEP_S
    while time.monotonic() < ends_s:
        with contextlib.suppress(NatsError):  # it may have led them
            if (await peers(system)).silent:
                return
        await asyncio.sleep(0.1)
    raise AssertionError("nobody is silent")


async def until_answering(engine: ClusterEngine) -> None:
    """Wait until a quorum confirms in all logs what the member sends."""
    ends_s = time.monotonic() + STEP_S
    while not engine.answering:
        assert time.monotonic() < ends_s, engine.replication()
        await asyncio.sleep(0.05)


def name_of(engine: ClusterEngine) -> str:
    assert engine.server_name is not None
    return engine.server_name


async def until_told(engine: ClusterEngine, *words: str) -> None:
    """Wait until a member that serves says all this of what is in the way."""
    ends_s = time.monotonic() + STEP_S
    while not all(word in (engine.replication().trouble or "") for word in words):
        assert time.monotonic() < ends_s, engine.replication()
        await asyncio.sleep(0.1)


class Bereft(Cluster):
    """Three members had data; two of them have lost it, and all are being started."""

    starts: tuple[asyncio.Future[None], ...] = ()

    async def begin(self, directory: Path) -> None:
        for name in MAPS:
            await self.drivers[0].put(name, "k", name.encode())
        await self.stop()
        for number in (1, 2):
            (directory / f"m{number}").rename(directory / f"lost{number}")
        self.engines = [self.made(number) for number in range(3)]
        self.drivers = [Driver(engine) for engine in self.engines]
        self.starts = tuple(asyncio.ensure_future(engine.start()) for engine in self.engines)
        await until_waiting(self.engines[0], "no majority")

    async def started(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self.starts), STEP_S)


@contextlib.asynccontextmanager
async def bereft(directory: Path) -> AsyncIterator[Bereft]:
    cluster = Bereft(3, directory)
    async with cluster:
        try:
            await cluster.begin(directory)
            yield cluster
        finally:
            for engine in cluster.engines:
                engine.end_waiting()
            await asyncio.gather(*cluster.starts, return_exceptions=True)


async def refuses(*_: object) -> None:
    raise NatsError("the servers have no leader")


async def test_what_is_left_is_all_there_after_a_partial_start(tmp_path: Path) -> None:
    async with bereft(tmp_path) as cluster:
        await cluster.engines[0].rescue(wipe=False)
        await cluster.started()
        for driver in cluster.drivers:
            for name in MAPS:
                assert await driver.value(name, "k") == name.encode()
        await cluster.drivers[2].put("orders", "k", b"new")
        assert await cluster.drivers[1].value("orders", "k") == b"new"

        # One that was lost comes back with its old data.
        await cluster.engines[1].stop()
        shutil.rmtree(tmp_path / "m1")
        (tmp_path / "lost1").rename(tmp_path / "m1")
        with pytest.raises(EngineError, match=r"empty .*m1 and start the member again"):
            await cluster.restart(1)
        assert await cluster.drivers[0].value("orders", "k") == b"new"


async def test_who_was_lost_and_comes_back_with_others_that_were_is_told_so(
    tmp_path: Path,
) -> None:
    """Together they vote again, and what they had written since was not in what went on."""
    async with Cluster(3, tmp_path) as cluster:
        await cluster.drivers[0].put("orders", "k", b"old")
        await cluster.engines[0].stop()
        for name in MAPS:
            await cluster.drivers[1].put(name, "later", b"lost")
        await asyncio.gather(*(cluster.engines[number].stop() for number in (1, 2)))
        cluster.engines[0] = cluster.made(0)
        cluster.drivers[0] = Driver(cluster.engines[0])
        start = asyncio.ensure_future(cluster.engines[0].start())
        await until_waiting(cluster.engines[0], "no majority")
        await cluster.engines[0].rescue(wipe=False)
        await asyncio.wait_for(start, STEP_S)
        await cluster.drivers[0].put("orders", "k", b"new")

        ends = await asyncio.gather(*map(cluster.restart, (1, 2)), return_exceptions=True)
        for number, end in zip((1, 2), ends, strict=True):
            assert isinstance(end, EngineError)
            assert f"m{number} and start the member again" in str(end)
        assert await cluster.drivers[0].value("orders", "k") == b"new"


async def test_a_forced_start_begins_with_nothing(tmp_path: Path) -> None:
    async with bereft(tmp_path) as cluster:
        await cluster.engines[0].rescue(wipe=True)
        await cluster.started()
        for driver in cluster.drivers:
            assert await driver.value("orders", "k") is None
        await cluster.drivers[2].put("orders", "k", b"new")
        assert await cluster.drivers[1].value("orders", "k") == b"new"


@pytest.mark.parametrize("what", ["delete_stream", "remove_server"])
async def test_a_forced_start_that_took_too_long_is_ended_when_it_is_asked_for_again(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bereft(tmp_path) as cluster:
        first = cluster.engines[0]
        with monkeypatch.context() as slow:
            slow.setattr(rescue, "DELETE_S", 0.5)
            slow.setattr(rescue, "TAKE_OFF_S", 5.0)
            slow.setattr(rescue, what, refuses)
            with pytest.raises(NotYetError, match="ask again in 5 s"):
                await first.rescue(wipe=True)
        await first.rescue(wipe=True)
        await cluster.started()
        assert [await driver.value(MAPS[0], "k") for driver in cluster.drivers] == [None] * 3


async def test_a_forced_start_begins_though_a_member_noted_its_logs_before_the_others_came(
    tmp_path: Path,
) -> None:
    async with bereft(tmp_path) as cluster:
        file = tmp_path / "m0" / "cluster" / "reached.json"
        content = json.loads(file.read_bytes())
        assert content["logs"].keys() >= {"shard-0", "shard-1", "shard-2"}
        for log in content["logs"].values():
            log["servers"] = [peer_id(name_of(cluster.engines[0]))]  # of which none is taken off
        file.write_text(json.dumps(content), encoding="utf-8")
        cluster.engines[0].end_waiting()
        await asyncio.gather(cluster.starts[0], return_exceptions=True)
        cluster.engines[0] = cluster.made(0)
        cluster.drivers[0] = Driver(cluster.engines[0])
        start = asyncio.ensure_future(cluster.engines[0].start())
        cluster.starts = (start, *cluster.starts[1:])
        await until_waiting(cluster.engines[0], "no majority")
        await cluster.engines[0].rescue(wipe=True)
        await cluster.started()
        assert await cluster.drivers[0].value("orders", "k") is None
        await cluster.drivers[0].put("orders", "k", b"new")
        assert await cluster.drivers[1].value("orders", "k") == b"new"


async def test_a_log_that_lost_most_copies_waits_for_the_call_though_a_majority_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LEADERLESS_S", 2.0)
    cluster = Bereft(5, tmp_path)
    async with cluster:
        for name in MAPS:
            await cluster.drivers[0].put(name, "k", name.encode())
        copies = await copies_of(cluster.engines[0].client, "shard-1")
        ids = [peer_id(name_of(engine)) for engine in cluster.engines]
        # The one that is left leads, and believes so for some seconds more.
        lost = [ids.index(peer) for peer in copies.servers - {copies.leader}]
        left = cluster.engines[ids.index(copies.leader)]
        await asyncio.gather(*(cluster.engines[number].stop() for number in lost))
        for number in lost:
            (tmp_path / f"m{number}").rename(tmp_path / f"lost{number}")
            cluster.engines[number] = cluster.made(number)
            cluster.drivers[number] = Driver(cluster.engines[number])
        new = [cluster.engines[number] for number in lost]
        cluster.starts = tuple(asyncio.ensure_future(engine.start()) for engine in new)
        try:
            await until_waiting(new[0], "partialStart")
            await until_told(left, "shard-1", *(f"m{number}" for number in lost), "partialStart")
            assert not any(start.done() for start in cluster.starts)

            await new[0].rescue(wipe=False)
            await cluster.started()
        finally:
            for engine in new:
                engine.end_waiting()
            await asyncio.gather(*cluster.starts, return_exceptions=True)
        assert len((await peers(left._cluster.system)).ids) == 5
        for driver in cluster.drivers:
            for name in MAPS:
                assert await driver.value(name, "k") == name.encode()


class CutOff(ClusterEngine):
    """Loses sight of the others when it has read what there is."""

    cut: Callable[[], None] | None = None
    late = False
    """Whether that is once it was confirmed."""

    async def _begin(self) -> None:
        if self.cut is not None and not self.late:
            self.cut()
        await super()._begin()

    async def _begin_to_keep(self) -> None:
        if self.cut is not None and self.late:
            self.cut()
        await super()._begin_to_keep()


@pytest.mark.parametrize("late", [False, True])
async def test_a_start_that_nobody_confirms_takes_the_call(tmp_path: Path, late: bool) -> None:
    async with Cluster(3, tmp_path, engine=CutOff) as cluster:
        await cluster.drivers[0].put("orders", "k", b"v")
        await cluster.engines[2].stop()
        engine = cluster.made(2)
        assert isinstance(engine, CutOff)
        engine.late = late
        known = [engine.decided]

        def cut() -> None:
            known.append(engine.decided)  # all was read
            cluster.isolate(2)

        engine.cut = cut
        cluster.engines[2], cluster.drivers[2] = engine, Driver(engine)
        start = asyncio.ensure_future(engine.start())
        try:
            await until_waiting(engine, "partialStart")
            assert "forceStart" not in (engine.waiting or "")
            assert [*known, engine.decided] == [False, False, True]
            with pytest.raises(EngineError, match="does not wait for the others"):
                await engine.rescue(wipe=True)
            rescue = asyncio.ensure_future(engine.rescue(wipe=False))
            await asyncio.sleep(0)
            cluster.heal()
            with pytest.raises(EngineError, match="a majority of the members is there"):
                await rescue
            await asyncio.wait_for(start, STEP_S)
        finally:
            engine.end_waiting()
            await asyncio.gather(start, return_exceptions=True)
        assert engine.waiting is None
        await until_answering(engine)  # until then it is not ready, as its probe says
        assert await cluster.drivers[2].value("orders", "k") == b"v"


async def test_members_that_are_together_are_not_rescued(tmp_path: Path) -> None:
    async with Cluster(3, tmp_path) as cluster:
        with pytest.raises(EngineError, match="does not wait for the others"):
            await cluster.engines[0].rescue(wipe=True)
        assert cluster.engines[0].decided


@pytest.mark.parametrize("wipe", [False, True])
async def test_a_majority_that_can_serve_is_left_alone(tmp_path: Path, wipe: bool) -> None:
    async with Cluster(3, tmp_path) as cluster:
        await cluster.drivers[0].put("orders", "k", b"v")
        await cluster.engines[1].stop()
        shards = cluster.engines[0]._cluster
        await until_silent(shards.system)
        with pytest.raises(EngineError, match="a majority of the members is there"):
            await take_off_lost(
                shards.system,
                shards.client,
                [one.name for one in shards.streams],
                3,
                set(),
                wipe=wipe,
            )
        assert len((await peers(shards.system)).ids) == 3
        assert await cluster.drivers[2].value("orders", "k") == b"v"


async def test_help_that_is_asked_for_at_once_is_given_when_it_will_be_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is gone was heard of a moment ago, and who leads a log alone does not know it yet."""
    async with Cluster(2, tmp_path) as cluster:
        await cluster.drivers[0].put("orders", "k", b"v")
        leader = (await meta_cluster(cluster.engines[0]._cluster.system))["leader"]
        left = next(number for number in range(2) if name_of(cluster.engines[number]) == leader)
        lost = 1 - left
        await cluster.engines[lost].stop()
        shutil.rmtree(tmp_path / f"m{lost}")
        cluster.engines[lost] = engine = cluster.made(lost)
        cluster.drivers[lost] = Driver(engine)
        start = asyncio.ensure_future(engine.start())
        try:
            shards, gone = cluster.engines[left]._cluster, set[str]()
            names = [one.name for one in shards.streams]
            await until_voting(shards.system, 3)
            heard_of_all(monkeypatch)
            await take_off_lost(shards.system, shards.client, names, 2, gone, wipe=False)
            assert len(gone) == 1
            await asyncio.wait_for(start, STEP_S)
        finally:
            engine.end_waiting()
            await asyncio.gather(start, return_exceptions=True)
        assert await cluster.drivers[lost].value("orders", "k") == b"v"


def heard_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next look of a rescue find nobody silent yet."""

    async def unaware(system: NatsClient) -> Peers:
        monkeypatch.setattr(rescue, "peers", peers)
        return (await peers(system))._replace(silent=frozenset())

    monkeypatch.setattr(rescue, "peers", unaware)


async def until_voting(system: NatsClient, count: int) -> None:
    """Wait until so many vote, silent ones too."""
    ends_s = time.monotonic() + STEP_S
    while time.monotonic() < ends_s:
        with contextlib.suppress(NatsError):
            if len((await peers(system)).ids) == count:
                return
        await asyncio.sleep(0.01)
    raise AssertionError("others vote")
