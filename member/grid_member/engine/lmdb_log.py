"""A durable log for one member, in LMDB.

One writer thread commits what has arrived as one transaction: LMDB syncs the data pages, then
writes the page that makes them count through a synchronous descriptor. Only then does the feed
hear of it. LMDB copies on write, so there is nothing to recover after a crash.

A structure with `fsync: false` gets the same treatment, which is more than it asks for: LMDB
without sync may break as a whole at power loss, and the structures share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine import codec, image
from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.operations import Committed, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from grid_member.engine.image import Image, Part
    from grid_member.engine.lmdb_tables import Environments, Tables
    from grid_member.engine.log import Clock, Feed
from grid_member.engine.lmdb_tables import (
    BASE,
    CHUNK,
    MAP_SIZE_BYTES,
    SEQUENCE,
    TIMESTAMP,
    open_environment,
    open_tables,
)

GROUP_RECORDS: Final = 1024
"""Records of one transaction at most."""
GROUP_BYTES: Final = 32 * 1024 * 1024
"""Bytes after which a transaction takes no further record."""
CLEAN_SLACK_BYTES: Final = 16 * 1024 * 1024
"""Garbage that is left alone, so that a small log is not cleaned over and over."""
IMAGE_CHUNK_PARTS: Final = 1000
"""Entries of an image that are encoded at a time, a few milliseconds of work."""
IMAGE_CHUNK_BYTES: Final = 1024 * 1024
"""Bytes of values after which a chunk is full."""
REOPEN_INTERVAL_S: Final = 0.2
"""Seconds between two tries to open LMDB after a commit of unknown outcome."""
PURGE_BATCH: Final = 2000
"""Records or chunks removed in one transaction."""

_log = logging.getLogger(__name__)


class _ImageJob:
    """An image on its way into the store."""

    __slots__ = ("chunks", "parts", "sequence", "size_bytes")

    def __init__(self, image_: Image) -> None:
        self.sequence = image_.sequence
        self.parts = image.parts(image_)
        self.chunks = 0
        self.size_bytes = 0

    def next_chunk(self) -> bytes | None:
        """Encode the next parts; None when there are no more."""
        chunk: list[Part] = []
        size_bytes = 0
        for part in islice(self.parts, IMAGE_CHUNK_PARTS):
            chunk.append(part)
            if isinstance(part, image.EntryPart):
                size_bytes += len(part.entry.value)
            elif isinstance(part, image.ItemPart):
                size_bytes += len(part.value)
            if size_bytes >= IMAGE_CHUNK_BYTES:
                break
        return codec.encode_parts(chunk) if chunk else None


class LmdbLog:
    """The log of one shard in a directory that `create_log` made and a lock protects."""

    def __init__(
        self,
        path: Path,
        shard: int,
        clock: Clock,
        *,
        map_size_bytes: int = MAP_SIZE_BYTES,
        clean_slack_bytes: int = CLEAN_SLACK_BYTES,
        environments: Environments = open_environment,
    ) -> None:
        """Open the log.

        Raises:
            EngineError: the files are missing, foreign, of a newer format or damaged.
        """
        self._path = path
        self._shard = shard
        self._clock = clock
        self._map_size_bytes = map_size_bytes
        self._clean_slack_bytes = clean_slack_bytes
        self._environments = environments
        self._tables: Tables | None = self._open()
        self._sequence = 0
        self._timestamp_ms = 0
        self._stored_bytes = 0
        self._since_image_bytes = 0
        self._retry_above_bytes = 0
        self._failing = False
        self._feed: Feed | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._arrived = threading.Condition()
        self._records: deque[Record] = deque()
        self._closing = False
        self._job: _ImageJob | None = None
        self._purging = True

    @property
    def shard(self) -> int:
        """The shard whose log this is."""
        return self._shard

    # Opening

    def _open(self) -> Tables:
        return open_tables(self._path, self._shard, self._map_size_bytes, self._environments)

    def replay(self) -> Iterator[Committed | Sequence[Part]]:
        """Yield the latest image's parts, then the records after it.

        Raises:
            EngineError: what is stored is damaged.
        """
        tables = self._tables
        if tables is None:
            raise EngineError(f"the log in {self._path} is closed")
        try:
            base, chunks = tables.base()
            self._sequence = base
            yield from self._replay_image(tables, base, chunks)
            yield from self._replay_records(tables, base)
        except (lmdb.Error, struct.error, codec.CodecError) as error:
            raise EngineError(f"the log in {self._path} is damaged: {error}") from error

    def _replay_image(self, tables: Tables, base: int, chunks: int) -> Iterator[Sequence[Part]]:
        with tables.environment.begin(tables.image) as transaction:
            for number in range(chunks):
                data = transaction.get(CHUNK.pack(base, number))
                if data is None:
                    raise EngineError(f"the log in {self._path} is damaged: chunk {number} is gone")
                self._stored_bytes += len(data)
                yield codec.decode_parts(data)

    def _replay_records(self, tables: Tables, base: int) -> Iterator[Committed]:
        with tables.environment.begin(tables.log) as transaction, transaction.cursor() as cursor:
            found = cursor.set_range(SEQUENCE.pack(base + 1))
            while found:
                key, value = cursor.item()
                sequence = SEQUENCE.unpack(key)[0]
                if sequence != self._sequence + 1:
                    raise EngineError(
                        f"the log in {self._path} is damaged: "
                        f"record {self._sequence + 1} is missing"
                    )
                timestamp_ms = TIMESTAMP.unpack_from(value)[0]
                record = codec.decode_record(value[TIMESTAMP.size :])
                self._sequence = sequence
                self._timestamp_ms = max(self._timestamp_ms, timestamp_ms)
                self._stored_bytes += len(value)
                yield Committed(sequence, timestamp_ms, record)
                found = cursor.next()

    # The event loop's side

    def start(self, feed: Feed) -> None:
        """Take records from now on; a thread writes them."""
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(
            target=self._write, name=f"grid-log-{self._shard}", daemon=True
        )
        self._thread.start()

    def append(self, record: Record) -> None:
        """Take a record; the feed hears of it once it is synced."""
        with self._arrived:
            self._records.append(record)
            self._arrived.notify()

    def wants_image(self, live_bytes: int) -> bool:
        """Tell whether more than half of the log is garbage."""
        return (
            self._job is None
            and not self._purging
            and self._stored_bytes
            > max(2 * live_bytes + self._clean_slack_bytes, self._retry_above_bytes)
        )

    def store_image(self, image: Image) -> None:
        """Store an image, then purge what it replaces, in pieces between the commits."""
        with self._arrived:
            self._job = _ImageJob(image)
            self._since_image_bytes = 0
            self._arrived.notify()

    async def close(self) -> None:
        """Finish the records that were taken, then close LMDB."""
        with self._arrived:
            self._closing = True
            self._arrived.notify()
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        if self._tables is not None:
            self._tables.environment.close()
            self._tables = None

    # The writer thread's side

    def _write(self) -> None:
        while True:
            group = self._next_group()
            if group:
                self._commit(group)
            elif self._closing:
                return
            self._maintain()

    def _next_group(self) -> list[Record]:
        """Wait for something to do; return the records that go into one transaction."""
        with self._arrived:
            while not (self._records or self._closing or self._job or self._purging):
                self._arrived.wait()
            group: list[Record] = []
            size_bytes = 0
            while self._records and len(group) < GROUP_RECORDS and size_bytes < GROUP_BYTES:
                group.append(self._records.popleft())
                size_bytes += _value_bytes(group[-1])
            return group

    def _commit(self, group: list[Record]) -> None:
        """Commit the records together, or reject them together."""
        timestamp_ms = max(self._timestamp_ms, self._clock())
        sequence = self._sequence
        try:
            values = [TIMESTAMP.pack(timestamp_ms) + codec.encode_record(r) for r in group]
            tables = self._tables = self._tables or self._open()
        except Exception as error:
            self._reject(group, error)  # nothing was written
            return
        try:
            _put(tables, sequence, values)
        except Exception as error:
            if not self._is_kept(sequence + len(values), values[-1]):
                self._reject(group, error)
                return
        if self._failing:
            self._failing = False
            _log.warning("the log of shard %d takes writes again", self._shard)
        self._sequence += len(group)
        self._timestamp_ms = timestamp_ms
        size_bytes = sum(map(len, values))
        self._stored_bytes += size_bytes
        self._since_image_bytes += size_bytes
        batch = [
            Committed(sequence + number, timestamp_ms, record)
            for number, record in enumerate(group, 1)
        ]
        self._tell(lambda feed: feed.committed(batch))

    def _is_kept(self, sequence: int, value: bytes) -> bool:
        """After a failed commit: tell whether it is there after all, under its last record.

        LMDB refuses everything after a failed write of its root page, until it is opened again;
        and then that page may or may not have been written. Answering before that is known would
        lose an answered write or bring back a refused one, so new records wait meanwhile.
        """
        while True:
            try:
                tables = self._reopen()
                kept = tables.record(sequence) == value
                if kept:
                    tables.environment.sync(True)
            except (lmdb.Error, EngineError, OSError) as error:
                _log.error("the log of shard %d cannot be read back: %s", self._shard, error)
                with self._arrived:
                    if self._arrived.wait_for(lambda: self._closing, REOPEN_INTERVAL_S):
                        return False  # the member ends: the next start finds out
            else:
                return kept

    def _reopen(self) -> Tables:
        if self._tables is not None:
            self._tables.environment.close()
            self._tables = None
        self._tables = self._open()
        return self._tables

    def _reject(self, group: list[Record], error: Exception) -> None:
        if not self._failing:
            self._failing = True
            _log.error("the log of shard %d cannot take writes: %s", self._shard, error)
        refused = Refused(Reason.UNAVAILABLE, f"the log cannot take writes now: {error}")
        self._tell(lambda feed: feed.rejected(group, refused))

    def _tell(self, news: Callable[[Feed], None]) -> None:
        if self._loop is not None and self._feed is not None:
            # A closed loop has nobody left to answer.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(news, self._feed)

    def _maintain(self) -> None:
        """Do one small piece of cleaning."""
        if self._tables is None or self._closing:
            return
        try:
            if self._job is not None:
                self._store_chunk(self._tables, self._job)
            elif self._purging:
                self._purging = self._purge(self._tables)
        except Exception as error:
            _log.warning("cleaning the log of shard %d failed: %s", self._shard, error)
            # Remove what was written of the image; a later one may find room.
            self._purging = self._job is not None
            self._job = None
            self._retry_above_bytes = self._stored_bytes + self._clean_slack_bytes
            with contextlib.suppress(lmdb.Error, EngineError, OSError):
                self._reopen()  # else the next commit opens it

    def _store_chunk(self, tables: Tables, job: _ImageJob) -> None:
        chunk = job.next_chunk()
        with tables.environment.begin(write=True) as transaction:
            if chunk is not None:
                transaction.put(CHUNK.pack(job.sequence, job.chunks), chunk, db=tables.image)
            else:
                base = BASE.pack(job.sequence, job.chunks)
                transaction.put(b"base", base, db=tables.meta)
        if chunk is not None:
            job.chunks += 1
            job.size_bytes += len(chunk)
            return
        self._stored_bytes = job.size_bytes + self._since_image_bytes
        self._purging = True
        self._job = None

    def _purge(self, tables: Tables) -> bool:
        """Remove some of what the image replaced; False when nothing is left to remove."""
        base = tables.base()[0]
        with tables.environment.begin(write=True) as transaction:
            removed = 0
            with transaction.cursor(tables.log) as cursor:
                cursor.first()
                # The key is empty behind the last record.
                while removed < PURGE_BATCH and (key := cursor.key()):
                    if SEQUENCE.unpack(key)[0] > base:
                        break
                    cursor.delete()
                    removed += 1
            with transaction.cursor(tables.image) as cursor:
                cursor.first()
                while removed < PURGE_BATCH and (key := cursor.key()):
                    if CHUNK.unpack(key)[0] == base:
                        cursor.set_range(CHUNK.pack(base + 1, 0))
                        continue
                    cursor.delete()
                    removed += 1
        return removed > 0


def _put(tables: Tables, sequence: int, values: list[bytes]) -> None:
    with tables.environment.begin(tables.log, write=True) as transaction:
        for number, value in enumerate(values, 1):
            if not transaction.put(SEQUENCE.pack(sequence + number), value, append=True):
                # LMDB reports a taken key by its result only.
                raise lmdb.KeyExistsError(f"record {sequence + number} is there already")


def _value_bytes(record: Record) -> int:
    return sum(len(getattr(operation, "value", b"")) for operation in record.operations)
