"""Data on disks that is damaged: what members say of it, which have it, and what is there still."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from typing import TYPE_CHECKING, TypeAlias

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.nats.streams import copies_of
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.test_rescue import STEP_S, until_waiting
from tests.unit.engine.drive import Driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
MAP = "notes"
RECORDS = 100
FLIPPED = 16
SHARD = "shard-1"


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

    async def begin(
        self, directory: Path, damage: Harm, members: int, streams: tuple[str, ...]
    ) -> None:
        assert self.shard_of(MAP) == int(SHARD[-1])
        for number in range(RECORDS):
            await self.drivers[0].put(MAP, f"k{number}", b"%d" % number)
        client = self.engines[0].client
        groups = [(await copies_of(client, stream)).group for stream in streams]
        await self.stop()
        for number in range(members):
            for stream, group in zip(streams, groups, strict=True):
                damage(directory / f"m{number}", stream, group)
        self.engines = [self.made(number) for number in range(self.size)]
        self.drivers = [Driver(engine) for engine in self.engines]
        self.starts = tuple(asyncio.ensure_future(engine.start()) for engine in self.engines)

    async def started(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self.starts), STEP_S)


@contextlib.asynccontextmanager
async def damaged(
    directory: Path,
    damage: Harm,
    members: int,
    streams: tuple[str, ...] = (SHARD,),
    lite: tuple[int, ...] = (),
) -> AsyncIterator[Damaged]:
    cluster = Damaged(3 + len(lite), directory, lite=lite)
    async with cluster:
        try:
            await cluster.begin(directory, damage, members, streams)
            yield cluster
        finally:
            for engine in cluster.engines:
                engine.end_waiting()
            await asyncio.gather(*cluster.starts, return_exceptions=True)


async def test_damage_of_all_copies_is_named_and_is_no_majority_that_is_lost(
    tmp_path: Path,
) -> None:
    async with damaged(tmp_path, flip, 3) as cluster:
        for engine in cluster.engines:
            await until_waiting(engine, "m0, m1, m2, which are all that hold it")
            waiting = engine.waiting or ""
            assert waiting.startswith(f"damaged data: records of {SHARD} are missing on the disks")
            assert "stop all members and restore a backup" in waiting
            assert "no majority" not in waiting
            with pytest.raises(EngineError, match="a majority of the members is there"):
                await engine.rescue(wipe=False)
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
    tmp_path: Path, damage: Harm, streams: tuple[str, ...]
) -> None:
    async with damaged(tmp_path, damage, 3, streams) as cluster:
        for engine in cluster.engines:
            await until_waiting(engine, "m0, m1, m2, which are all that hold it")
            assert f"damaged data: records of {streams[0]} are missing" in (engine.waiting or "")
        assert not any(start.done() for start in cluster.starts)


async def test_who_has_no_data_takes_no_emptied_log_for_a_new_one(tmp_path: Path) -> None:
    async with damaged(tmp_path, remove_all, 3, ("shard-0",), lite=(3,)) as cluster:
        (tmp_path / "m3" / "cluster" / "reached.json").unlink()
        await until_waiting(cluster.engines[3], "damaged data: records of shard-0 are missing on")
        assert not any(start.done() for start in cluster.starts)


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
