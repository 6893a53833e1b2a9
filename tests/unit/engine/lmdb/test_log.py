"""The durable log: compaction, a second process, and directories it must not touch."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lmdb
import pytest

from grid_member.engine import LocalEngine, open_engine
from grid_member.engine.api import EngineError, Item
from grid_member.engine.backup.salvage import salvage_store
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.lmdb import pages, space
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.lmdb.pages import Pages, open_file
from grid_member.engine.lmdb.tables import Tables, open_environment
from grid_member.engine.lmdb.wal import WAL_BYTES
from grid_member.engine.state import snapshot
from tests.unit.engine.drive import Driver, FixedStructures, condition
from tests.unit.engine.strategies import newer_record
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from grid_member.engine.log.log import Clock

ROOT = Path(__file__).parents[4]
SLACK_BYTES: Final = 50_000
RESERVE_BYTES: Final = 256 * 1024
SMALL_WAL_BYTES: Final = RESERVE_BYTES * WAL_BYTES // space.RESERVE_BYTES


def engine_at(
    directory: Path,
    *,
    map_size_bytes: int = 1 << 30,
    slack_bytes: int = SLACK_BYTES,
    wal_bytes: int = SMALL_WAL_BYTES,
) -> LocalEngine:
    def open_log(path: Path, shard: int, clock: Clock) -> LmdbLog:
        return LmdbLog(
            path,
            shard,
            clock,
            map_size_bytes=map_size_bytes,
            compaction_slack_bytes=slack_bytes,
            reserve_bytes=RESERVE_BYTES,
            wal_bytes=wal_bytes,
        )

    return open_engine(FixedStructures(), directory, open_log=open_log)


async def started(engine: LocalEngine) -> Driver:
    await engine.start()
    return Driver(engine)


def data(driver: Driver) -> list[snapshot.Part]:
    """Return what the durable shard holds, without the members that wrote it."""
    parts = snapshot.parts(driver.engine.shards[0].state.snapshot(), ordered=True)
    return [part for part in parts if isinstance(part, (snapshot.EntryPart, snapshot.ItemPart))]


def stored(directory: Path) -> tuple[int, int]:
    """Count the records and the bytes of records and snapshot."""
    environment = open_environment(directory / "store" / "shard-0", 1 << 30, False)
    try:
        size_bytes = records = 0
        for name in (b"log", b"image"):
            table = environment.open_db(name)
            with environment.begin(table) as transaction, transaction.cursor() as cursor:
                for _, value in cursor:
                    size_bytes += len(value)
                    records += name == b"log"
    finally:
        environment.close()
    return records, size_bytes


async def test_a_cleaned_log_is_small_and_gives_the_same_state(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path))
    for number in range(3000):
        await driver.put("m", f"key-{number % 50}", b"v" * (number % 700))
        if number % 10 == 0:
            await driver.offer("q", str(number).encode())
        if number % 15 == 0:
            await driver.take("q")
    before = data(driver)
    live_bytes = driver.engine.shards[0].state.live_bytes
    await driver.engine.stop()
    records, size_bytes = stored(tmp_path)
    assert records < 3000
    # Two times what lives, the slack, and what came while the last snapshot was written.
    assert size_bytes < 4 * (live_bytes + SLACK_BYTES)

    engine = engine_at(tmp_path)
    replayed = await started(engine)
    member = engine.shards[0].state.members
    assert [mark.incarnation for mark in member.values()] == [2]
    assert data(replayed) == before
    await engine.stop()


async def test_a_new_incarnation_sees_a_taken_item_again_after_cleaning(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path, slack_bytes=2000))
    await driver.offer("q", b"1")
    await driver.offer("q", b"2")
    assert isinstance(await driver.poll("q"), Item)
    for _ in range(300):
        await driver.put("m", "k", b"v" * 100)
    shutil.copytree(tmp_path, tmp_path / "copy" / "dir", ignore=shutil.ignore_patterns("copy"))
    again = await started(engine_at(tmp_path / "copy" / "dir"))
    assert [await again.take("q") for _ in range(3)] == [b"1", b"2", None]
    await again.engine.stop()
    driver.engine.queue_confirm(Item(b"1", None, "q", (2 << 16), 1))
    await driver.engine.stop()


async def test_a_confirm_that_a_full_log_refused_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.local.deliveries.DELIVERY_RETRY_S", 0.01)
    failing: list[bool] = []
    refused: list[int] = []

    append = Tables.append

    def sometimes(
        tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None
    ) -> None:
        if failing:
            refused.append(len(values))
            raise OSError(errno.ENOSPC, "No space left on device")
        append(tables, sequence, values, salt)

    monkeypatch.setattr(Tables, "append", sometimes)
    driver = await started(engine_at(tmp_path, wal_bytes=0))
    await driver.offer("q", b"1")
    item = await driver.poll("q")
    assert isinstance(item, Item)
    failing.append(True)
    driver.engine.queue_confirm(item)
    # By itself: with a write it would be sent again for that reason. Each is tried twice.
    await condition(lambda: len(refused) > 6)
    assert driver.engine.shards[0].state.queues.by_name
    failing.clear()
    await condition(lambda: not driver.engine.shards[0].state.queues.by_name)

    async def put_taken() -> bool:
        return await driver.put("m", "k", b"v") is None

    # The confirm stores nothing and is taken first; a put is when the log has looked for room.
    await eventually(put_taken)
    await driver.engine.stop()
    again = await started(engine_at(tmp_path))
    assert await again.size("q") == 0
    await again.engine.stop()


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    await engine.start()
    program = (
        "import asyncio, sys, pathlib\n"
        "from grid_member.engine import open_engine\n"
        "from tests.unit.engine.drive import FixedStructures\n"
        "asyncio.run(open_engine(FixedStructures(), pathlib.Path(sys.argv[1])).start())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    second = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert "is in use by another process" in second.stderr
    with pytest.raises(EngineError, match="in use"):
        await engine_at(tmp_path).start()
    await engine.stop()
    await (await started(engine_at(tmp_path))).engine.stop()


async def made(directory: Path) -> Path:
    driver = await started(engine_at(directory))
    await driver.put("m", "k", b"v" * 20_000)
    await driver.engine.stop()
    return directory / "store"


async def test_an_interrupted_creation_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "creating" / "shard-0").mkdir(parents=True)
    (tmp_path / "creating" / "shard-0" / "data.mdb").write_bytes(b"half")
    driver = await started(engine_at(tmp_path))
    assert await driver.put("m", "k", b"v") is None
    await driver.engine.stop()
    assert not (tmp_path / "creating").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2, this version reads 1"),
        ({"kind": "other"}, "not written by a grid-member"),
        ({"member": 7}, "foreign or damaged"),
        ({"shards": 4}, "has 4 shards"),
    ],
)
async def test_a_store_that_is_not_ours_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    identity = await made(tmp_path) / "store.json"
    identity.write_text(json.dumps(json.loads(identity.read_text()) | change))
    with pytest.raises(EngineError, match=message):
        await engine_at(tmp_path).start()


async def test_a_store_without_identity_is_refused(tmp_path: Path) -> None:
    identity = await made(tmp_path) / "store.json"
    for content in (b"", b"[]", b"\xff", b'{"kind"'):
        identity.write_bytes(content)
        with pytest.raises(EngineError, match="foreign or damaged"):
            await engine_at(tmp_path).start()
    identity.unlink()
    with pytest.raises(EngineError, match="foreign or damaged"):
        await engine_at(tmp_path).start()


async def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    shard = await made(tmp_path) / "shard-0"
    for stored_format, message in (
        (b"grid-log\0\0\0\3\0\0\0\0", "has format 3"),
        (b"grid-log\0\0\0\1\0\0\0\5", "belongs to shard 5"),
        (b"not-ours\0\0\0\1\0\0\0\0", "is foreign"),
        (b"?", "foreign or damaged"),
    ):
        environment = open_environment(shard, 1 << 30, False)
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"format", stored_format, db=meta)
        environment.close()
        with pytest.raises(EngineError, match=message):
            await engine_at(tmp_path).start()


async def test_a_foreign_or_torn_log_file_is_refused(tmp_path: Path) -> None:
    file = await made(tmp_path) / "shard-0" / "data.mdb"
    for content in (b"", b"x" * 100, b"x" * 20_000, bytes(20_000), file.read_bytes()[:4096]):
        file.write_bytes(content)
        with pytest.raises(DamagedStoreError):
            await engine_at(tmp_path).start()
    file.unlink()
    with pytest.raises(DamagedStoreError, match="holds no log"):
        await engine_at(tmp_path).start()


async def test_a_log_file_cut_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path))
    for number in range(150):
        await driver.put("m", f"k{number}", b"v" * (number * 37 % 6000))
    before = data(driver)
    await driver.engine.stop()
    file = tmp_path / "store" / "shard-0" / "data.mdb"
    content = file.read_bytes()
    refused = 0
    for size in range(4096, len(content), 20480):
        file.write_bytes(content[:size])
        engine = engine_at(tmp_path)
        try:
            await engine.start()
        except EngineError:
            refused += 1
        else:
            assert data(Driver(engine)) == before
            await engine.stop()
    assert refused > 10


async def test_a_foreign_lmdb_file_is_refused(tmp_path: Path) -> None:
    shard = await made(tmp_path) / "shard-0"
    (shard / "data.mdb").unlink()
    with lmdb.Environment(str(shard), max_dbs=1, lock=False) as environment:
        environment.open_db(b"something")
    with pytest.raises(DamagedStoreError):
        await engine_at(tmp_path).start()


async def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    shard = await made(tmp_path) / "shard-0"
    for change, message in ((b"\0" * 50, "checksum"), (None, "record 1 is missing")):
        environment = open_environment(shard, 1 << 30, False)
        log = environment.open_db(b"log")
        with environment.begin(log, write=True) as transaction:
            first = (1).to_bytes(8, "big")
            if change is None:
                transaction.delete(first)
            else:
                transaction.put(first, change)
        environment.close()
        with pytest.raises(DamagedStoreError, match=message):
            await engine_at(tmp_path).start()


async def test_a_record_of_a_later_version_is_no_damage(tmp_path: Path) -> None:
    shard = await made(tmp_path) / "shard-0"
    environment = open_environment(shard, 1 << 30, False)
    log = environment.open_db(b"log")
    with environment.begin(log, write=True) as transaction:
        first = (1).to_bytes(8, "big")
        head = transaction.get(first, b"")[: struct.calcsize(">QI")]
        transaction.put(first, head + newer_record())
    environment.close()
    with pytest.raises(EngineError, match="operation 0xee is not known") as caught:
        await engine_at(tmp_path).start()
    assert not isinstance(caught.value, DamagedStoreError)
    with pytest.raises(EngineError, match="operation 0xee is not known"):
        salvage_store(tmp_path, 1)


@pytest.mark.parametrize(
    "lack",
    [
        lmdb.MemoryError("Cannot allocate memory"),
        lmdb.DiskError("Input/output error"),
        lmdb.ReadonlyError("Permission denied"),
        lmdb.Error("Too many open files"),
        OSError(errno.ENFILE, "Too many open files in system"),
        MemoryError(),
    ],
)
async def test_what_the_system_lacks_is_no_damage(tmp_path: Path, lack: Exception) -> None:
    await made(tmp_path)

    def no_environment(path: Path, map_size_bytes: int, create: bool) -> lmdb.Environment:
        raise lack

    def open_log(path: Path, shard: int, clock: Clock) -> LmdbLog:
        return LmdbLog(path, shard, clock, environments=no_environment)

    with pytest.raises(EngineError, match="cannot use the log") as raised:
        await open_engine(FixedStructures(), tmp_path, open_log=open_log).start()
    assert not isinstance(raised.value, DamagedStoreError)
    driver = await started(engine_at(tmp_path))
    await driver.engine.stop()


async def test_a_log_without_descriptors_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await made(tmp_path) / "shard-0" / "data.mdb"
    with open_file(file.parent) as opened:
        kept_bytes = Pages(opened).claimed_bytes - 4096
    # A page is missing, so all of them are looked at: that may fail, too.
    os.truncate(file, kept_bytes)

    def no_verify(path: str) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files", path)

    with monkeypatch.context() as patched:
        patched.setattr(pages, "verify", no_verify)
        with pytest.raises(EngineError, match="raise the limit of open files") as raised:
            await engine_at(tmp_path).start()
    assert not isinstance(raised.value, DamagedStoreError)
    assert file.stat().st_size == kept_bytes


async def test_a_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EngineError, match="cannot use the directory"):
        await engine_at(tmp_path / "file" / "data").start()
