"""Promise: of a damaged store comes back what it really held at one moment, as late as possible."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import EngineError
from grid_member.engine.backup.salvage import salvage_store, wipe_store
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.lmdb.pages import Pages, open_file
from grid_member.engine.lmdb.tables import MAP_SIZE_BYTES, open_environment, open_tables
from grid_member.engine.state import codec
from grid_member.engine.storage.identity import read_identity
from grid_member.engine.storage.store import open_store
from tests.unit.engine.backed_up import (
    STRUCTURES,
    back_up,
    flipped,
    flipped_everywhere,
    stored,
)
from tests.unit.engine.drive import Driver, FixedStructures, condition

if TYPE_CHECKING:
    from grid_member.engine.log.log import Clock, Log

pytestmark = pytest.mark.usefixtures("impatient")

PAGE = 4096
LOG = Path("store/shard-0/data.mdb")


def small_log(path: Path, shard: int, clock: Clock) -> Log:
    return LmdbLog(
        path, shard, clock, compaction_slack_bytes=20_000, reserve_bytes=16_384, wal_bytes=0
    )


@pytest.fixture
async def cleaned(memory: Path) -> Path:
    """A store with a snapshot and records behind it."""
    directory = memory / "cleaned"
    engine = open_engine(FixedStructures(), directory, open_log=small_log)
    await engine.start()
    driver = Driver(engine)
    for number in range(60):
        await driver.put("m", f"k{number % 20}", b"%03d" % number * 500)
    for number in range(400):
        await driver.put("m", f"k{number % 20}", b"%03d" % number * 400)
        await driver.offer("q", b"%d" % number)
        await driver.take("q")
    await condition(lambda: True)
    await engine.stop()
    return directory


def _pointer(key: bytes, value: bytes) -> bytes:
    """Return what a leaf holds of an entry whose value has pages of its own."""
    size = len(value)
    return struct.pack("=HHHH", size & 0xFFFF, size >> 16, 1, len(key)) + key


class Whole:
    """What a store held at each sequence, and where in its file that is."""

    def __init__(self, directory: Path) -> None:
        self.data = (directory / LOG).read_bytes()
        self.base, self.dumps, places = self._read(directory)
        self.last = max(self.dumps)
        self.former = self.last - 2
        """What the commit before the last one has, at least."""
        self.first_on_page: dict[int, int] = {}
        """The lowest sequence with bytes on a page; that of the snapshot stands for its chunks."""
        for sequence, value in places:
            at = self.data.find(value)
            while at >= 0:
                for page in range(at // PAGE, (at + len(value) - 1) // PAGE + 1):
                    known = self.first_on_page.get(page, sequence)
                    self.first_on_page[page] = min(known, sequence)
                at = self.data.find(value, at + 1)

    def _read(self, directory: Path) -> tuple[int, dict[int, bytes], list[tuple[int, bytes]]]:
        path = (directory / LOG).parent
        tables = open_tables(path, 0, MAP_SIZE_BYTES, open_environment)
        base = tables.base()[0]
        with tables.environment.begin() as transaction:
            chunks = [(base, k, v) for k, v in transaction.cursor(tables.snapshot)]
            self.chunks = [v for _, _, v in chunks]
            records = [(int.from_bytes(k, "big"), k, v) for k, v in transaction.cursor(tables.log)]
        tables.environment.close()
        stored_there = [*chunks, *records]
        places = [(s, v) for s, _, v in stored_there]
        places += [(s, _pointer(k, v)) for s, k, v in stored_there]
        sequences = range(base, max([base, *(s for s, _, _ in records)]) + 1)
        store = directory / "store"
        return base, {s: stored(store, until=s).dump() for s in sequences}, places

    def judge(self, directory: Path, page: int | None) -> int | None:
        """Salvage; check that nothing is invented, nor lost before what is on the damaged page."""
        first = None if page is None else self.first_on_page.get(page)
        try:
            found = salvage_store(directory, 1)
        except EngineError:
            # That is so only when the snapshot is hit, or both ways to everything.
            assert first is None or first <= max(self.base, 1)
            return None
        state = stored(directory / "store")
        (last,) = found.sequences
        assert last == state.sequence
        assert state.dump() == self.dumps[state.sequence]
        if first is not None:
            # A page may hold bytes of older records beside the way to the newest ones.
            assert state.sequence >= min(first - 1, self.former)
        return last


def damaged(whole: Path, directory: Path, data: bytes) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(whole, directory)
    (directory / LOG).write_bytes(data)
    return directory


@pytest.mark.parametrize("kind", ["plain", "cleaned"])
def test_flipped_bits(kind: str, request: pytest.FixtureRequest, memory: Path) -> None:
    source: Path = request.getfixturevalue(kind)
    whole = Whole(source)
    assert (whole.base > 0) is (kind == "cleaned")
    assert whole.last > whole.base + 10
    chance = random.Random(7)
    got: list[int | None] = []
    for page in range(len(whole.data) // PAGE):
        for _ in range(3):
            bit = page * PAGE * 8 + chance.randrange(PAGE * 8)
            place = damaged(source, memory / "hit", flipped(whole.data, bit))
            got.append(whole.judge(place, page))
    # Free pages do not matter, others do.
    assert got.count(whole.last) > 3
    assert any(last is not None and last < whole.last for last in got)


@pytest.mark.parametrize("kind", ["plain", "cleaned"])
def test_pages_overwritten_and_files_cut(
    kind: str, request: pytest.FixtureRequest, memory: Path
) -> None:
    source: Path = request.getfixturevalue(kind)
    whole = Whole(source)
    chance = random.Random(8)
    got: list[int | None] = []
    for page in range(len(whole.data) // PAGE):
        start, end = page * PAGE, (page + 1) * PAGE
        for content in (bytes(PAGE), chance.randbytes(PAGE)):
            data = whole.data[:start] + content + whole.data[end:]
            got.append(whole.judge(damaged(source, memory / "hit", data), page))
        cut = whole.judge(damaged(source, memory / "hit", whole.data[: start + 100]), None)
        # Nothing before the root pages are whole; later perhaps everything.
        assert page > 1 or cut is None
    # Free pages do not matter, others do.
    assert whole.last in got
    assert any(last is not None and last < whole.last for last in got)


def test_a_page_of_another_place(plain: Path, memory: Path) -> None:
    """A page that was written to a wrong place, or whose newer content never came."""
    whole = Whole(plain)
    chance = random.Random(9)
    pages = len(whole.data) // PAGE
    got: list[int | None] = []
    for page in range(2, pages):
        other = chance.randrange(pages) * PAGE
        start = page * PAGE
        moved = whole.data[other : other + PAGE]
        data = whole.data[:start] + moved + whole.data[start + PAGE :]
        got.append(whole.judge(damaged(plain, memory / "hit", data), page))
    assert whole.last in got
    assert any(last is not None and last < whole.last for last in got)


def test_a_damaged_piece_of_the_only_image_costs_the_log(cleaned: Path, memory: Path) -> None:
    """What the other pieces and the records behind them hold was never data all by itself."""
    whole = Whole(cleaned)
    assert whole.chunks
    for chunk in whole.chunks:
        place = damaged(cleaned, memory / "hit", flipped_everywhere(whole.data, chunk))
        with pytest.raises(EngineError, match=r"nothing of the store in .* can be read"):
            salvage_store(place, 1)


def test_both_root_pages(plain: Path, memory: Path) -> None:
    """Without the newest root there is the commit before; without both there is nothing."""
    whole = Whole(plain)
    with open_file((plain / LOG).parent) as file:
        newest, former = Pages(file).roots
    assert newest.commit == former.commit + 1
    pages = [0, 1]
    newest_page = newest.commit % 2
    start = newest_page * PAGE
    data = whole.data[:start] + bytes(PAGE) + whole.data[start + PAGE :]
    last = whole.judge(damaged(plain, memory / "hit", data), None)
    assert last is not None
    assert whole.last - 2 <= last < whole.last
    nothing = bytes(PAGE * len(pages)) + whole.data[PAGE * 2 :]
    assert whole.judge(damaged(plain, memory / "hit", nothing), None) is None


def test_one_flip_in_a_record_costs_that_one_and_what_follows(plain: Path, memory: Path) -> None:
    whole = Whole(plain)
    for sequence in range(2, whole.last + 1, 7):
        tables = open_tables((plain / LOG).parent, 0, MAP_SIZE_BYTES, open_environment)
        value = tables.record(sequence)
        tables.environment.close()
        assert value is not None
        data = flipped_everywhere(whole.data, value)
        place = damaged(plain, memory / "hit", data)
        assert whole.judge(place, None) == sequence - 1
        assert (place / "store.damaged-1" / "shard-0/data.mdb").read_bytes() == data


async def test_the_member_goes_on_with_what_is_left(plain: Path) -> None:
    path = plain / LOG
    member = read_identity(plain / "store/store.json").member
    for number in (1, 2):
        items = 25 - number * 5
        path.write_bytes(flipped_everywhere(path.read_bytes(), b"item %d" % items))
        engine = open_engine(STRUCTURES, plain)
        with pytest.raises(DamagedStoreError):
            await engine.start()
        assert salvage_store(plain, 1).member == member
        assert (plain / f"store.damaged-{number}").is_dir()
        engine = open_engine(STRUCTURES, plain)
        await engine.start()
        driver = Driver(engine)
        assert engine.member_uuid == str(member)
        # What was in flight came back, the offers after the damage did not.
        assert await driver.size("q") == items
        await engine.stop()


async def test_an_identity_that_is_lost(plain: Path) -> None:
    before = read_identity(plain / "store/store.json").member
    for change in (b"", None):
        if change is None:
            (plain / "store/store.json").unlink()
        else:
            (plain / "store/store.json").write_bytes(change)
        with pytest.raises(DamagedStoreError):
            open_store(plain, 1)
        found = salvage_store(plain, 1)
        assert found.member != before
    engine = open_engine(STRUCTURES, plain)
    await engine.start()
    driver = Driver(engine)
    # Nothing stays in flight for a member that is gone.
    assert [await driver.take("q") for _ in range(3)] == [b"item 0", b"item 1", b"item 2"]
    await engine.stop()


def test_a_shard_that_is_gone(memory: Path) -> None:
    open_store(memory / "data", 2).close()
    (memory / "data/store/shard-1/data.mdb").unlink()
    assert salvage_store(memory / "data", 2).sequences == (0, None)
    open_store(memory / "data", 2).close()


def test_what_no_recovery_may_touch(plain: Path, memory: Path) -> None:
    before = read_identity(plain / "store/store.json").member
    in_use = open_store(plain, 1)
    for recover in (salvage_store, wipe_store):
        with pytest.raises(EngineError, match="in use"):
            recover(plain, 1)
    in_use.close()
    identity = (plain / "store/store.json").read_text()
    for text, problem in (
        (identity.replace('"format": 1', '"format": 2'), "format 2"),
        (identity.replace("grid-member", "else"), "not written by a grid-member"),
    ):
        (plain / "store/store.json").write_text(text)
        for recover in (salvage_store, wipe_store):
            with pytest.raises(EngineError, match=problem):
                recover(plain, 1)
    (plain / "store/store.json").write_text(identity)
    other = memory / "other"
    (other / "store").mkdir(parents=True)
    (other / "store" / "data").write_bytes(b"not ours")
    (memory / "nothing").mkdir()
    for recover in (salvage_store, wipe_store):
        with pytest.raises(EngineError, match=r"store\.json"):
            recover(other, 1)
        with pytest.raises(EngineError, match="holds no store"):
            recover(memory / "nothing", 1)
    assert [path.name for path in other.rglob("*")] == ["store", "data"]
    assert read_identity(plain / "store/store.json").member == before


async def test_a_wipe_leaves_an_empty_store_of_another_member(plain: Path) -> None:
    before = read_identity(plain / "store/store.json").member
    (plain / "store.damaged-1").mkdir()
    (plain / LOG).write_bytes(b"x" * 9000)
    member = wipe_store(plain, 1)
    assert member != before
    assert sorted(os.listdir(plain)) == ["lock", "store", "store.damaged-1"]
    engine = open_engine(STRUCTURES, plain)
    await engine.start()
    assert engine.member_uuid == str(member)
    assert engine.held_structures() == []
    await engine.stop()


async def test_a_wiped_store_is_not_restored_again(plain: Path, memory: Path) -> None:
    from grid_member.engine.backup.restore import restore_once

    engine = open_engine(STRUCTURES, plain)
    await engine.start()
    backup = back_up(Driver(engine), memory / "backups", plain)
    await engine.stop()
    assert restore_once(backup, memory / "data") is not None
    wipe_store(memory / "data", 1)
    assert restore_once(backup, memory / "data") is None
    assert codec.decode_parts(codec.encode_parts([])) == []
    assert stored(memory / "data/store").sequence == 0
