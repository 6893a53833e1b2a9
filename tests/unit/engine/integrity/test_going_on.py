"""Logs that end before what members have read in them: how it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.integrity import damage
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import Driver
from tests.unit.engine.integrity.test_damaged_disks import (
    MAP,
    RECORDS,
    SHARD,
    damaged,
    remove,
    remove_all,
)
from tests.unit.engine.replicated.faults.test_rescue import STEP_S, until_waiting
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grid_member.engine.replicated.engine import ClusterEngine

pytestmark = pytest.mark.timeout(180)


async def test_what_one_member_has_alone_is_to_be_emptied_by_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with damaged(tmp_path, remove_all, 2, late=(2,)) as cluster:
        for engine in cluster.engines[:2]:
            await until_waiting(engine, f"damaged data: records of {SHARD} are missing on")
        cluster.begin_late()
        await cluster.started()
        for number in range(RECORDS):
            assert await cluster.drivers[0].value(MAP, f"k{number}") == b"%d" % number
    assert "empty" not in "".join(line for line in caplog.messages if "damaged data" in line)


async def test_a_copy_that_damaged_ones_keep_from_leading_is_named_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "HELD_BACK_LOOKS", damage.LOOKS)
    async with damaged(tmp_path, remove, 2, behind=(2,)) as cluster:
        for engine in cluster.engines:
            await until_waiting(
                engine, "empty those of m0 and m1, start all and ask m2 for partialStart"
            )
        assert not any(start.done() for start in cluster.starts)


async def test_whose_directory_alone_is_of_a_later_moment_goes_on_with_an_empty_one(
    tmp_path: Path,
) -> None:
    async with Cluster(3, tmp_path) as cluster:
        await cluster.drivers[0].put(MAP, "k", b"v")
        await cluster.engines[2].stop()
        place = tmp_path / "m2"
        note_too_much(place)
        async with starting(cluster, 2) as engine:
            await until_waiting(
                engine, f"stop m2, empty {place} and start it again, this one alone"
            )
            assert await cluster.drivers[1].value(MAP, "k") == b"v"
            assert not engine.ready
        shutil.rmtree(place)
        await cluster.restart(2)
        assert await cluster.drivers[2].value(MAP, "k") == b"v"


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "note-removed"])
async def test_of_two_members_the_one_whose_note_is_wrong_goes_on_with_what_the_other_has(
    tmp_path: Path, emptied: bool
) -> None:
    async with Cluster(2, tmp_path) as cluster:
        await cluster.drivers[0].put(MAP, "k", b"v")
        await cluster.engines[1].stop()
        place = tmp_path / "m1"
        note_too_much(place)
        async with starting(cluster, 1) as engine:
            await until_waiting(engine, "of two members the other one is none")
        if emptied:
            shutil.rmtree(place)
        else:
            (place / "cluster" / "reached.json").unlink()
        async with starting(cluster, 1) as engine:
            if emptied:
                await until_waiting(engine, "no majority")
                await engine.rescue(wipe=False)
            await until(lambda: engine.ready, STEP_S)
            assert await cluster.drivers[1].value(MAP, "k") == b"v"


@contextlib.asynccontextmanager
async def starting(cluster: Cluster, number: int) -> AsyncIterator[ClusterEngine]:
    """Start a member that was stopped, and stop it again."""
    cluster.engines[number] = engine = cluster.made(number)
    cluster.drivers[number] = Driver(engine)
    start = asyncio.ensure_future(engine.start())
    try:
        yield engine
    finally:
        engine.end_waiting()
        await asyncio.gather(start, return_exceptions=True)


async def test_who_removes_the_notes_of_all_goes_on_with_what_is_there(tmp_path: Path) -> None:
    async with damaged(tmp_path, remove_all, 3) as cluster:
        for engine in cluster.engines:
            await until_waiting(engine, f"damaged data: records of {SHARD} are missing on")
        for engine in cluster.engines:
            engine.end_waiting()
        await asyncio.gather(*cluster.starts, return_exceptions=True)
        for number in range(3):
            (tmp_path / f"m{number}" / "cluster" / "reached.json").unlink()
        await cluster.start()
        for driver in cluster.drivers:
            assert await driver.value(MAP, "k0") is None
        assert await cluster.drivers[0].put(MAP, "k", b"v") is None
        assert await cluster.drivers[1].value(MAP, "k") == b"v"


def note_too_much(member: Path) -> None:
    """Have a member's note be of a later moment than its log."""
    file = member / "cluster" / "reached.json"
    content = json.loads(file.read_bytes())
    content["logs"][SHARD]["sequence"] += RECORDS
    file.write_text(json.dumps(content), encoding="utf-8")
