"""The file of a WAL: which of its bytes are a group, and which are none."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.lmdb import wal
from grid_member.engine.lmdb.tables import (
    MAP_SIZE_BYTES,
    Tables,
    create_log,
    open_environment,
    open_tables,
)
from grid_member.engine.lmdb.wal import BLOCK_BYTES, SALT_BYTES, WAL_FILE, Wal, WalContent, read_wal
from tests.unit.engine.lmdb.test_log import SMALL_WAL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECTOR_BYTES = 512


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    create_log(tmp_path, 0)
    tables = open_tables(tmp_path, 0, MAP_SIZE_BYTES, open_environment)
    yield tables
    tables.environment.close()


class Written:
    """A WAL and LMDB beside it, with the values of the records that they were given."""

    def __init__(self, path: Path, tables: Tables, size_bytes: int = SMALL_WAL_BYTES) -> None:
        self.path = path
        self.tables = tables
        self.values: list[bytes] = []
        self.seconds: list[float] = []
        self.wal = Wal(path, 0, size_bytes, self.seconds.append)
        self.wal.make()
        self.write([b"first"])

    @property
    def settled(self) -> int:
        """The sequence of the last record that LMDB has."""
        return len(self.values) - len(self.wal.pending)

    def write(self, values: list[bytes]) -> bool:
        """Write a group; tell whether the WAL took it."""
        last = len(self.values)
        taken = self.wal.append(last + 1, values, sum(map(len, values)))
        if not taken:
            self.wal.settle(self.tables, last, values)
        self.values += values
        return taken

    def left(self) -> list[bytes]:
        """Return what is found of the pending values."""
        found = read_wal(self.path, self.tables.salt(), self.settled)
        assert found is not None
        assert not found.gap
        return found.values


def some(chance: random.Random) -> list[bytes]:
    return [
        chance.randbytes(chance.choice([1, 50, 400, 5000])) for _ in range(chance.randint(1, 4))
    ]


@pytest.mark.parametrize("seed", range(5))
def test_what_lmdb_lacks_is_found(tmp_path: Path, tables: Tables, seed: int) -> None:
    chance = random.Random(seed)
    written = Written(tmp_path, tables)
    taken = [written.write(some(chance)) for _ in range(100) if written.left() is not None]
    assert written.left() == written.wal.pending
    assert taken.count(True) > 50 > taken.count(False) > 3
    assert len(written.seconds) == taken.count(True)
    stored = [tables.record(number + 1) for number in range(written.settled)]
    assert stored == written.values[: written.settled]


@pytest.mark.parametrize("seed", range(8))
def test_a_group_that_was_written_in_part_is_none(
    tmp_path: Path, tables: Tables, seed: int
) -> None:
    """Whichever of its sectors reached the disk, over whatever former groups have left there."""
    chance = random.Random(seed)
    written = Written(tmp_path, tables)
    for _ in range(chance.randint(10, 60)):
        written.write(some(chance))
    before, pending = (tmp_path / WAL_FILE).read_bytes(), list(written.wal.pending)
    values = [chance.randbytes(3000), b"small"]
    while not written.write(values):
        before, pending = (tmp_path / WAL_FILE).read_bytes(), list(written.wal.pending)
    after = (tmp_path / WAL_FILE).read_bytes()
    settled = written.settled
    changed = [
        place
        for place in range(0, len(after), SECTOR_BYTES)
        if before[place : place + SECTOR_BYTES] != after[place : place + SECTOR_BYTES]
    ]
    assert len(changed) > 4
    losses = 0
    for _ in range(100):
        there = chance.sample(changed, chance.randint(0, len(changed) - 1))
        content = bytearray(before)
        for place in there:
            content[place : place + SECTOR_BYTES] = after[place : place + SECTOR_BYTES]
        (tmp_path / WAL_FILE).write_bytes(content)
        found = read_wal(tmp_path, tables.salt(), settled)
        assert found is not None
        assert found.values in (pending, pending + values)
        assert not found.gap
        losses += found.values == pending
    assert losses > 50


def test_a_lost_group_is_told_from_the_end(tmp_path: Path, tables: Tables) -> None:
    written = Written(tmp_path, tables)
    for number in range(4):
        assert written.write([b"%d" % number])
    content = bytearray((tmp_path / WAL_FILE).read_bytes())
    content[BLOCK_BYTES + SALT_BYTES] ^= 1
    (tmp_path / WAL_FILE).write_bytes(content)
    found = read_wal(tmp_path, tables.salt(), written.settled)
    assert found == WalContent([b"0"], gap=True)


def test_no_bytes_pass_for_a_group_without_the_salt(tmp_path: Path, tables: Tables) -> None:
    """Neither a group of another WAL, nor one that a client stored where a group may begin."""
    written = Written(tmp_path, tables)
    assert written.write([b"mine"])
    salt = tables.salt()
    other = wal._encode_group(os.urandom(SALT_BYTES), 3, [b"other"])
    content = bytearray((tmp_path / WAL_FILE).read_bytes())
    for place in range(BLOCK_BYTES, len(content), BLOCK_BYTES):
        content[place : place + len(other)] = other
    (tmp_path / WAL_FILE).write_bytes(content)
    found = read_wal(tmp_path, salt, written.settled)
    assert found == WalContent([b"mine"], gap=False)


@pytest.mark.parametrize("right", [False, True])
def test_hostile_bytes_are_no_group(tmp_path: Path, right: bool) -> None:
    """With a right CRC, too, which only who knows the salt can give them."""
    chance = random.Random(3)
    salt = chance.randbytes(SALT_BYTES - 4) + (1).to_bytes(4, "big")
    for _ in range(300):
        count, length = (chance.choice([0, 1, 2, 9, 2**31, 2**32 - 1]) for _ in range(2))
        body = length.to_bytes(4, "big") * chance.randint(0, 3) + chance.randbytes(9)
        first = chance.choice([0, 1, 2, 2**63, 2**64 - 1])
        head = wal._head(salt, first, count, body)
        if not right:
            place = chance.randrange(SALT_BYTES, len(head))
            head = head[:place] + bytes([head[place] ^ 1]) + head[place + 1 :]
        (tmp_path / WAL_FILE).write_bytes(head + body + bytes(chance.randint(0, 5000)))
        found = read_wal(tmp_path, salt, 0)
        assert found is not None
        assert right or found == WalContent([], gap=False)
        assert sum(map(len, found.values)) <= len(body)


def test_groups_that_follow_what_lmdb_lost_are_a_gap(tmp_path: Path, tables: Tables) -> None:
    written = Written(tmp_path, tables)
    assert written.write([b"2"])
    assert written.write([b"3"])
    assert read_wal(tmp_path, tables.salt(), 0) == WalContent([], gap=True)
    assert read_wal(tmp_path, tables.salt(), 2) == WalContent([b"3"], gap=False)


def test_a_tail_that_is_cut_is_told(tmp_path: Path, tables: Tables) -> None:
    written = Written(tmp_path, tables)
    written.write([b"2"])
    os.truncate(tmp_path / WAL_FILE, SMALL_WAL_BYTES - 1)
    assert read_wal(tmp_path, tables.salt(), 1) is None
    (tmp_path / WAL_FILE).unlink()
    assert read_wal(tmp_path, tables.salt(), 1) is None
