"""Zeros behind the pages of a log: small commits write into what the file has already."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.lmdb_ahead import AHEAD_BYTES, LEAST_BYTES, SMALL_BYTES, Ahead
from grid_member.engine.lmdb_bulk import put_records
from grid_member.engine.lmdb_check import check_pages
from grid_member.engine.lmdb_space import Space
from grid_member.engine.lmdb_tables import (
    DATA_FILE,
    MAP_SIZE_BYTES,
    Tables,
    create_log,
    open_environment,
    open_tables,
)
from tests.unit.engine.test_lmdb import data, engine_at, started
from tests.unit.engine.volume import MIB, VOLUMES, fill, volume

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHARD = 0
SMALL = bytes(4_000)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    create_log(tmp_path, SHARD)
    tables = open_tables(tmp_path, SHARD, MAP_SIZE_BYTES, open_environment)
    yield tables
    tables.environment.close()


def size(place: Path) -> int:
    return (place / DATA_FILE).stat().st_size


def test_small_commits_seldom_lengthen_the_file(tmp_path: Path, tables: Tables) -> None:
    ahead = Ahead(tmp_path)
    sizes = set()
    for number in range(500):
        put_records(tables, [(number + 1, SMALL)])
        ahead.keep(tables)
        sizes.add(size(tmp_path))
        assert size(tmp_path) - tables.used_bytes() >= LEAST_BYTES - SMALL_BYTES
    pieces = tables.used_bytes() / (AHEAD_BYTES - LEAST_BYTES)
    assert len(sizes) <= pieces + 2


def test_what_is_ahead_is_no_damage(tmp_path: Path, tables: Tables) -> None:
    put_records(tables, [(1, SMALL)])
    Ahead(tmp_path).keep(tables)
    used_bytes = tables.used_bytes()
    tables.environment.close()
    assert size(tmp_path) == used_bytes + AHEAD_BYTES
    check_pages(tmp_path, may_lose=False)
    again = open_tables(tmp_path, SHARD, MAP_SIZE_BYTES, open_environment)
    assert again.record(1) == SMALL
    assert again.used_bytes() == used_bytes
    again.environment.close()


def test_commits_that_take_much_get_no_zeros(tmp_path: Path, tables: Tables) -> None:
    ahead = Ahead(tmp_path)
    for number in range(5):
        put_records(tables, [(number + 1, bytes(2 * SMALL_BYTES))])
        ahead.keep(tables)
        assert size(tmp_path) == tables.used_bytes()


def test_nothing_that_is_there_is_written_over(tmp_path: Path, tables: Tables) -> None:
    """A file may be longer than its pages reach, with what a commit that failed has written."""
    put_records(tables, [(1, SMALL)])
    foreign = os.urandom(AHEAD_BYTES // 2)
    with (tmp_path / DATA_FILE).open("ab") as file:
        file.write(foreign)
    before = (tmp_path / DATA_FILE).read_bytes()
    Ahead(tmp_path).keep(tables)
    after = (tmp_path / DATA_FILE).read_bytes()
    assert after == before + bytes(AHEAD_BYTES - len(foreign))


def test_a_disk_that_gives_nothing_is_asked_again_later(
    tmp_path: Path, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def full(file: int, zeros: bytes) -> int:
        asked.append(len(zeros))
        raise OSError(errno.ENOSPC, "planted")

    ahead = Ahead(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("grid_member.engine.lmdb_ahead.os.write", full)
        for number in range(20):
            put_records(tables, [(number + 1, SMALL)])
            ahead.keep(tables)
    assert len(asked) == 1
    for number in range(20, 400):
        put_records(tables, [(number + 1, SMALL)])
        ahead.keep(tables)
    assert size(tmp_path) - tables.used_bytes() >= LEAST_BYTES - SMALL_BYTES


async def test_a_log_that_reaches_ahead_opens_again(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path))
    for number in range(50):
        assert await driver.put("m", f"k{number}", b"v") is None
    before = data(driver)
    await driver.engine.stop()
    assert size(tmp_path / "store" / "shard-0") > AHEAD_BYTES
    again = await started(engine_at(tmp_path))
    assert data(again) == before
    await again.engine.stop()


if VOLUMES:

    def test_what_is_ahead_counts_as_room(tmp_path: Path) -> None:
        with volume(tmp_path / "disk", 4 * MIB) as place:
            create_log(place, SHARD)
            tables = open_tables(place, SHARD, MAP_SIZE_BYTES, open_environment)
            put_records(tables, [(1, SMALL)])
            Ahead(place).keep(tables)
            fill(place / "ballast")
            space = Space(place, 0)
            assert space.fits(AHEAD_BYTES // 4, tables)
            assert not space.fits(AHEAD_BYTES, tables)
            tables.environment.close()

    def test_the_last_of_a_disk_is_left_to_others(tmp_path: Path) -> None:
        with volume(tmp_path / "disk", 4 * MIB) as place:
            create_log(place, SHARD)
            tables = open_tables(place, SHARD, MAP_SIZE_BYTES, open_environment)
            put_records(tables, [(1, SMALL)])
            before_bytes = size(place)
            fill(place / "ballast", AHEAD_BYTES // 2)
            Ahead(place).keep(tables)
            assert size(place) == before_bytes
            (place / "other").write_bytes(bytes(AHEAD_BYTES // 4))
            tables.environment.close()


def test_a_hole_is_no_room(tmp_path: Path, tables: Tables) -> None:
    """As a sparse copy of the directory has it where zeros were."""
    space = Space(tmp_path, 0)
    assert space.measure(tables)
    free_bytes = space._room_bytes
    os.truncate(tmp_path / DATA_FILE, 1 << 40)
    assert space.measure(tables)
    assert space._room_bytes < free_bytes + AHEAD_BYTES
