"""Data on disks that is damaged: what members say of it, which have it, and what is there still."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from typing import TYPE_CHECKING, TypeAlias

import pytest

from grid_member.engine.api import EngineError, Refused
from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS
from grid_member.engine.integrity import watermarks
from grid_member.engine.integrity.damage import Damage
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.streams import ask_successfully, copies_of
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicated.part_engine import NO_FULL_REPLICA
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import Driver
from tests.unit.engine.replicated.faults.test_rescue import (
    STEP_S,
    name_of,
    until_told,
    until_waiting,
)
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from grid_member.engine.replicated.engine import ClusterEngine

pytestmark = pytest.mark.timeout(180)
MAP = "notes"
RECORDS = 100
SIX = 6
TIMES = 3
"""Looks in a row that have to find the same."""
FLIPPED = 16
SHARD = "shard-1"


def holds(member: Path, stream: str) -> bool:
    """Tell whether a member's server keeps a stream."""
    return bool(list(member.glob(f"cluster/**/streams/{stream}")))


def files_of(member: Path, stream: str) -> Path:
    """Return where a member's server keeps a stream."""
    (found,) = member.glob(f"cluster/**/streams/{stream}")
    return found


def flip(member: Path, stream: str, group: str) -> None:
    """Change bytes in the midst of all records."""
    for block in (files_of(member, stream) / "msgs").glob("*.blk"):
        data = bytearray(block.read_bytes())
        middle = len(data) // 2
        data[middle : middle + FLIPPED] = bytes(255 - b for b in data[middle : middle + FLIPPED])
        block.write_bytes(data)


def remove(member: Path, stream: str, group: str) -> None:
    """Remove the records, and leave what the group noted of them."""
    shutil.rmtree(files_of(member, stream))


def remove_all(member: Path, stream: str, group: str) -> None:
    """Remove all that there is of a stream: it begins anew."""
    remove(member, stream, group)
    (notes,) = member.glob(f"cluster/**/_js_/{group}")
    shutil.rmtree(notes)


Harm: TypeAlias = "Callable[[Path, str, str], None]"
"""What is done to a copy, of which member, stream and group."""


class Damaged(Cluster):
    """Members that had data, of which some is damaged, and are being started."""

    starts: tuple[asyncio.Future[None], ...] = ()
    late: tuple[int, ...] = ()
    """Who is not started with the others."""
    behind: tuple[int, ...] = ()
    """Members that are stopped before the others write one more record."""

    async def begin(
        self, directory: Path, damage: Harm, members: int, streams: tuple[str, ...]
    ) -> None:
        assert self.shard_of(MAP) == int(SHARD[-1])
        for number in range(RECORDS):
            await self.drivers[0].put(MAP, f"k{number}", b"%d" % number)
        client = self.engines[0].client
        groups = [(await copies_of(client, stream)).group for stream in streams]
        if self.behind:
            await self._leave_behind()
        else:
            await self._stop_in_order(streams, self._whole(directory, members, streams[0]))
        for number in range(members):
            place = directory / f"m{number}"
            for stream, group in zip(streams, groups, strict=True):
                if holds(place, stream):
                    damage(place, stream, group)
        self.engines = [self.made(number) for number in range(self.size)]
        self.drivers = [Driver(engine) for engine in self.engines]
        there = [one for number, one in enumerate(self.engines) if number not in self.late]
        self.starts = tuple(asyncio.ensure_future(engine.start()) for engine in there)

    async def _leave_behind(self) -> None:
        """Stop members, and the others after they have written a record that those lack."""
        await asyncio.gather(*(self.engines[number].stop() for number in self.behind))

        async def is_written() -> bool:
            return await self.drivers[0].put(MAP, "later", b"v") is None

        await eventually(is_written)
        await self.stop()

    def _whole(self, directory: Path, members: int, stream: str) -> list[int]:
        """Return the members whose copies of a stream stay whole."""
        return [n for n in range(members, self.size) if holds(directory / f"m{n}", stream)]

    async def _stop_in_order(self, streams: tuple[str, ...], whole: list[int]) -> None:
        """Stop all members, a member whose copies stay whole last and as the leader.

        The entries of no other server are newer then. Servers that stop at the same time hand over
        what they lead, and a server that ends first may miss the entry about that: servers with
        damaged copies that have the entry would not vote for the whole copy.
        """
        last = whole[-1:]
        for number in last:
            for stream in streams:
                await self._await_lead(number, stream)
        first = [number for number in range(self.size) if number not in last]
        for numbers in (first, last):
            await asyncio.gather(*(self.engines[number].stop() for number in numbers))

    async def _await_lead(self, number: int, stream: str) -> None:
        """Have a member's server lead a stream; return when it does."""
        client, name = self.engines[number].client, name_of(self.engines[number])
        call, placement = f"STREAM.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": name}}

        async def leads() -> bool:
            with contextlib.suppress(NatsError):  # no server leads the stream now
                if (await copies_of(client, stream)).leader == peer_id(name):
                    return True
                await ask_successfully(client, call, placement)
            return False

        await eventually(leads)

    def begin_late(self) -> None:
        """Start those that were left out."""
        late = [self.engines[number] for number in self.late]
        self.starts += tuple(asyncio.ensure_future(engine.start()) for engine in late)

    async def started(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self.starts), STEP_S)


@contextlib.asynccontextmanager
async def damaged(
    directory: Path,
    damage: Harm,
    members: int,
    streams: tuple[str, ...] = (SHARD,),
    lite: tuple[int, ...] = (),
    size: int = 3,
    late: tuple[int, ...] = (),
    behind: tuple[int, ...] = (),
) -> AsyncIterator[Damaged]:
    cluster = Damaged(size + len(lite), directory, lite=lite)
    cluster.late, cluster.behind = late, behind
    async with cluster:
        try:
            await cluster.begin(directory, damage, members, streams)
            yield cluster
        finally:
            for engine in cluster.engines:
                engine.end_waiting()
            await asyncio.gather(*cluster.starts, return_exceptions=True)


async def stays_told(
    monkeypatch: pytest.MonkeyPatch, engines: Sequence[ClusterEngine], words: str
) -> None:
    """Wait until members say something of damage, and then, look by look, nothing else."""
    said: list[list[str]] = [[] for _ in engines]
    for engine, told in zip(engines, said, strict=True):
        await until_waiting(engine, words)
        damage = engine._cluster.damage

        def tell(damage: Damage = damage, told: list[str] = told) -> None:
            Damage._tell(damage)
            told.append(damage.report or "")

        monkeypatch.setattr(damage, "_tell", tell)
    await until(lambda: all(len(told) >= TIMES for told in said), STEP_S)
    assert all(words in one for told in said for one in told)


async def test_damage_of_all_copies_is_named_and_is_no_majority_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(tmp_path, flip, 3) as cluster:
        for engine in cluster.engines:
            await until_waiting(engine, "m0, m1, m2, which are all that hold it")
            waiting = engine.waiting or ""
            assert waiting.startswith(f"damaged data: records of {SHARD} are missing on the disks")
            assert "start all with persistence.restore-from" in waiting
            assert "no majority" not in waiting
            with pytest.raises(EngineError, match="a majority of the members is there"):
                await engine.rescue(wipe=False)
        await stays_told(monkeypatch, cluster.engines, "m0, m1, m2, which are all that hold it")
        assert not any(start.done() for start in cluster.starts)


@pytest.mark.parametrize(
    ("damage", "streams"),
    [
        (remove, (SHARD,)),
        (remove_all, (SHARD,)),
        (remove_all, ("shard-0",)),
        (remove_all, (SHARD, f"{SHARD}-image")),
    ],
)
async def test_a_log_that_was_emptied_on_all_disks_is_no_new_one(
    tmp_path: Path, damage: Harm, streams: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(tmp_path, damage, 3, streams) as cluster:
        told = f"damaged data: records of {streams[0]} are missing on the disks of m0, m1, m2, "
        await stays_told(monkeypatch, cluster.engines, told)
        for number, engine in enumerate(cluster.engines):
            alone = f"stop m{number}, empty {tmp_path / f'm{number}'} and start it again"
            await until_waiting(engine, alone)
        assert not any(start.done() for start in cluster.starts)


def remove_files(member: Path, stream: str, group: str) -> None:
    """Remove all that a server has."""
    shutil.rmtree(member / "cluster" / "jetstream")


def empty_files(member: Path, stream: str, group: str) -> None:
    """Remove all that a server has but the directory that it made for it."""
    kept = member / "cluster" / "jetstream" / "jetstream"
    for one in kept.iterdir():
        shutil.rmtree(one)


def remove_notes(member: Path, stream: str, group: str) -> None:
    """Remove what the group that decides about streams has noted, and leave the streams."""
    (notes,) = member.glob("cluster/**/_js_/_meta_")
    shutil.rmtree(notes)


@pytest.mark.parametrize("damage", [remove_files, empty_files])
async def test_who_lost_all_files_of_their_servers_begin_no_new_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Harm
) -> None:
    async with damaged(tmp_path, damage, 3) as cluster:
        await stays_told(monkeypatch, cluster.engines, "m0, m1, m2, which are all that hold it")
        assert not any(start.done() for start in cluster.starts)


async def test_who_lost_only_what_their_servers_noted_about_streams_go_on_with_the_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with damaged(tmp_path, remove_notes, 3) as cluster:
        await cluster.started()
        for number in range(RECORDS):
            assert await cluster.drivers[2].value(MAP, f"k{number}") == b"%d" % number
    assert "is not the log that this member has read" not in caplog.text
    assert "damaged data" not in caplog.text


async def test_who_has_no_data_takes_no_emptied_log_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(tmp_path, remove_all, 3, ("shard-0",), lite=(3,)) as cluster:
        (tmp_path / "m3" / "cluster" / "reached.json").unlink()
        told = "damaged data: records of shard-0 are missing on"
        await stays_told(monkeypatch, cluster.engines[3:], told)
        assert not any(start.done() for start in cluster.starts)


async def test_of_more_than_five_members_each_says_that_a_log_was_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(tmp_path, remove_all, SIX, size=SIX) as cluster:
        await until(lambda: sum(map(tells_of_damage, cluster.engines)) == MAX_FULL_REPLICAS, STEP_S)
        (last,) = [engine for engine in cluster.engines if not tells_of_damage(engine)]
        await until_waiting(last, NO_FULL_REPLICA)
        takers = [engine for engine in cluster.engines if engine is not last]
        await stays_told(monkeypatch, takers, f"damaged data: records of {SHARD} are missing on")
        assert not any(start.done() for start in cluster.starts)


def tells_of_damage(engine: ClusterEngine) -> bool:
    return "damaged data" in (engine.waiting or "")


async def test_a_member_that_runs_does_not_go_on_with_a_log_that_was_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK_S", "NOTE_S"):
        monkeypatch.setattr(watermarks, name, 0.2)
    cluster = Damaged(5, tmp_path)
    async with cluster:
        for number in range(RECORDS):
            await cluster.drivers[0].put(MAP, f"k{number}", b"%d" % number)
        copies = await copies_of(cluster.engines[0].client, SHARD)
        takers = [n for n, one in enumerate(cluster.engines) if peer(one) in copies.servers]
        runs = next(n for n in range(5) if n not in takers)
        running, file = cluster.engines[runs], tmp_path / f"m{runs}" / "cluster" / "reached.json"
        await until(lambda: file.exists() and noted(file)["sequence"] > RECORDS // 2, STEP_S)
        before = noted(file)
        await asyncio.gather(*(cluster.engines[number].stop() for number in takers))
        for number in takers:
            remove_all(tmp_path / f"m{number}", SHARD, copies.group)
            cluster.engines[number] = cluster.made(number)
            cluster.drivers[number] = Driver(cluster.engines[number])
        started = [cluster.engines[number] for number in takers]
        cluster.starts = tuple(asyncio.ensure_future(one.start()) for one in started)
        try:
            told = f"damaged data: records of {SHARD} are missing on the disks of m"
            await until_told(running, told, "which are all that hold it")
            assert isinstance(await cluster.drivers[runs].put(MAP, "k", b"v"), Refused)
            assert isinstance(await cluster.drivers[runs].get(MAP, "k1"), Refused)
        finally:
            for engine in started:
                engine.end_waiting()
            await asyncio.gather(*cluster.starts, return_exceptions=True)
        await running.stop()
        assert noted(file)["sequence"] >= before["sequence"]


def peer(engine: ClusterEngine) -> str:
    return peer_id(engine.server_name or "")


def noted(file: Path) -> dict[str, int]:
    """Return what a member has noted of the log."""
    found: dict[str, int] = json.loads(file.read_bytes())["logs"][SHARD]
    return found


@pytest.mark.parametrize(
    ("damage", "members"), [(flip, 1), (flip, 2), (remove, 1), (remove, 2), (remove_all, 1)]
)
async def test_what_one_copy_has_still_is_read_from_it(
    tmp_path: Path, damage: Harm, members: int
) -> None:
    async with damaged(tmp_path, damage, members) as cluster:
        await cluster.started()
        for driver in cluster.drivers:
            for number in range(RECORDS):
                assert await driver.value(MAP, f"k{number}") == b"%d" % number
