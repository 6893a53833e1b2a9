"""Promise: what is damaged is called so, also when it ends the process that opens it."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import EngineError
from grid_member.engine.backup.salvage import refuse_healthy, salvage_store
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.lmdb.pages import Pages, check_pages, open_file
from grid_member.engine.lmdb.tables import (
    MAP_SIZE_BYTES,
    SEQUENCE,
    create_log,
    open_environment,
    open_tables,
    pack_record,
)
from grid_member.engine.state.operations import Record
from grid_member.engine.storage import store as opening
from grid_member.engine.storage.store import CrashMarker
from tests.unit.engine.backed_up import STRUCTURES, flipped, wild_value
from tests.unit.engine.drive import Driver, condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grid_member.engine.state.operations import Committed
    from grid_member.engine.state.snapshot import Part

PAGE: Final = 4096
LOG: Final = Path("store/shard-0/data.mdb")
MARK: Final = Path("store/opening")
VERSION_AT: Final = 20
"""Where a root page has LMDB's format."""
LAST_PAGE_AT: Final = 136
"""Where a root page has the number of the last page."""
LOWER_AT: Final = 12
"""Where a page has the end of its list of nodes."""

OPEN: Final = """
import sys
from pathlib import Path
from grid_member.engine.shard.shards import Shards
from grid_member.engine.lmdb.log import LmdbLog
Shards(Path(sys.argv[1]), 1, lambda: 0, LmdbLog).open(lambda *_: None)
"""


async def test_a_mark_is_there_as_long_as_the_store_is_being_opened(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    replay = LmdbLog.replay

    def watched(log: LmdbLog) -> Iterator[Committed | Sequence[Part]]:
        seen.append((plain / MARK).exists())
        return replay(log)

    monkeypatch.setattr(LmdbLog, "replay", watched)
    checks = counted_checks(monkeypatch)
    for _ in range(2):
        assert not (plain / MARK).exists()
        engine = open_engine(STRUCTURES, plain)
        await engine.start()
        assert not (plain / MARK).exists()
        await engine.stop()
    assert (seen, checks) == ([True, True], [])


async def test_a_disk_that_does_not_remove_the_mark_keeps_nothing_else_from_going_on(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = threading.Event(), threading.Event()
    end = CrashMarker.end

    def stuck(opening: CrashMarker) -> None:
        asked.set()
        assert answers.wait(30)
        end(opening)

    monkeypatch.setattr(CrashMarker, "end", stuck)
    engine = open_engine(STRUCTURES, plain)
    starting = asyncio.create_task(engine.start())
    try:
        await condition(asked.is_set)
        assert not engine.ready
    finally:
        answers.set()
    await starting
    assert not (plain / MARK).exists()
    await engine.stop()


def counted_checks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    checks: list[Path] = []

    def check(path: Path) -> None:
        checks.append(path)
        check_pages(path)

    monkeypatch.setattr(opening, "check_pages", check)
    return checks


async def test_a_whole_store_is_checked_after_a_start_that_died_and_opened(
    plain: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (plain / MARK).touch()
    checks = counted_checks(monkeypatch)
    engine = open_engine(STRUCTURES, plain)
    await engine.start()
    assert await Driver(engine).size("q") == 25
    await engine.stop()
    assert checks == [(plain / LOG).parent]
    assert "the last start died while it opened the store" in caplog.text
    assert not (plain / MARK).exists()


async def test_a_start_that_says_what_is_wrong_leaves_no_mark(plain: Path) -> None:
    data = (plain / LOG).read_bytes()
    (plain / LOG).write_bytes(data.replace(b"item 12", b"item 13"))
    with pytest.raises(DamagedStoreError, match="checksum mismatch"):
        await open_engine(STRUCTURES, plain).start()
    assert not (plain / MARK).exists()


async def test_damage_that_ends_the_process(plain: Path) -> None:
    data, sequence = wild_value((plain / LOG).read_bytes())
    (plain / LOG).write_bytes(data)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN, str(plain))
    assert await process.wait() < 0
    for _ in range(2):
        # Whoever comes next must look, too.
        assert (plain / MARK).exists()
        with pytest.raises(DamagedStoreError, match="its pages contradict each other, first at"):
            await open_engine(STRUCTURES, plain).start()
    refuse_healthy(plain, 1)
    assert salvage_store(plain, 1).sequences == (sequence - 1,)
    engine = open_engine(STRUCTURES, plain)
    await engine.start()
    await engine.stop()
    assert (plain / "store.damaged-1" / "opening").exists()


def newest_root(directory: Path) -> int:
    with open_file((directory / LOG).parent) as file:
        return Pages(file).roots[0].commit % 2 * PAGE


@pytest.mark.parametrize("bit", [7, 20, 27, 28, 40, 63])
async def test_a_wrong_count_of_pages_is_damage(plain: Path, bit: int) -> None:
    data = (plain / LOG).read_bytes()
    place = newest_root(plain) + LAST_PAGE_AT
    (last,) = struct.unpack_from("=Q", data, place)
    damaged = flipped(data, place * 8 + bit)
    assert struct.unpack_from("=Q", damaged, place)[0] == last ^ (1 << bit)
    (plain / LOG).write_bytes(damaged)
    with pytest.raises(DamagedStoreError):
        await open_engine(STRUCTURES, plain).start()
    assert (plain / LOG).read_bytes() == damaged


async def test_pages_that_nobody_uses_are_no_damage(plain: Path) -> None:
    place = newest_root(plain) + LAST_PAGE_AT
    with (plain / LOG).open("r+b") as log:
        log.seek(place)
        (last,) = struct.unpack("=Q", log.read(8))
        log.seek(place)
        log.write(struct.pack("=Q", last + 3))
        log.truncate((last + 4) * PAGE)
    check_pages((plain / LOG).parent)
    (plain / MARK).touch()
    engine = open_engine(STRUCTURES, plain)
    await engine.start()
    assert await Driver(engine).size("q") == 25
    await engine.stop()
    check_pages((plain / LOG).parent)


async def test_what_lmdb_does_not_call_damage_is_damage(plain: Path) -> None:
    data = (plain / LOG).read_bytes()
    places = [VERSION_AT]
    for page in range(2, len(data) // PAGE):
        number, _, flags = struct.unpack_from("=QHH", data, page * PAGE)
        if (number, flags) == (page, 2):
            places.append(page * PAGE + LOWER_AT)
    refused = 0
    for place in places:
        (plain / LOG).write_bytes(flipped(data, place * 8 + 5))
        engine = open_engine(STRUCTURES, plain)
        try:
            await engine.start()
        except DamagedStoreError:
            refused += 1
        else:
            assert await Driver(engine).size("q") == 25  # a page that is free by now
            await engine.stop()
    assert refused > 2


def test_a_last_page_that_passes_for_an_empty_one_is_damage(tmp_path: Path) -> None:
    """LMDB goes by the page, and counts the records elsewhere."""
    create_log(tmp_path, 0)
    tables = open_tables(tmp_path, 0, MAP_SIZE_BYTES, open_environment)
    place = 0
    while not place:
        last = tables.last()
        tables.append(last, [pack_record(last + 1, 1, Record(bytes(16), 1, last + 1, ()))])
        if last > 100:  # the first pages have no others before them
            place = page_of_sixteen((tmp_path / "data.mdb").read_bytes(), last + 1)
    tables.environment.close()
    data = (tmp_path / "data.mdb").read_bytes()
    (tmp_path / "data.mdb").write_bytes(flipped(data, (place + LOWER_AT) * 8 + 5))
    with pytest.raises(DamagedStoreError, match=r"record \d+ is missing"):
        list(LmdbLog(tmp_path, 0, lambda: 1).replay())


def page_of_sixteen(data: bytes, last: int) -> int:
    """Return where the page is that has the last record as its sixteenth; 0 without one."""
    for page in range(4, len(data) // PAGE):
        number, _, flags, lower = struct.unpack_from("=QHHH", data, page * PAGE)
        content = data[page * PAGE : (page + 1) * PAGE]
        if (number, flags, lower) == (page, 2, 16 + 16 * 2) and SEQUENCE.pack(last) in content:
            return page * PAGE
    return 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
async def test_a_mark_that_cannot_be_left(
    plain: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(directory: Path) -> None:
        raise OSError(code, os.strerror(code), str(directory))

    monkeypatch.setattr(opening, "sync_directory", fail)
    engine = open_engine(STRUCTURES, plain)
    if code == errno.EACCES:
        with pytest.raises(EngineError, match="Permission denied: let the member's user"):
            await engine.start()
    else:
        await engine.start()
        assert engine.ready
        await engine.stop()
