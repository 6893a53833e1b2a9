"""A durable log for one member, in LMDB.

One writer thread commits what has arrived together: a small group of records with one write into
the WAL, a large one, and what the WAL has when it is full, as one transaction of LMDB, which
syncs the data pages, then writes the page that makes them count. Only then does the consumer hear
of it. LMDB copies on write: nothing has to be recovered after a crash, and the WAL is replayed.

A structure with `fsync: false` gets the same treatment, which is more than it asks for: LMDB
without sync may break as a whole at power loss, and the structures share it.

When the disk is full or a commit fails, records that store something are refused until a look at
the disk finds room again; those that remove something are tried once more, with the reserve.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.io.directory_lock import LOCK
from grid_member.engine.io.ground import Ground, LostGroundError
from grid_member.engine.lmdb.compaction import (
    SHORT_CHUNK_BYTES,
    SNAPSHOT_CHUNK_BYTES,
    SnapshotJob,
    purge,
)
from grid_member.engine.lmdb.inbox import Inbox, Writer
from grid_member.engine.lmdb.replay import Replay
from grid_member.engine.lmdb.space import RESERVE_BYTES, Space
from grid_member.engine.lmdb.tables import (
    DATA_FILE,
    MAP_SIZE_BYTES,
    open_environment,
    open_tables,
    pack_records,
)
from grid_member.engine.lmdb.wal import WAL_BYTES, Wal
from grid_member.engine.log.log import committed_at, split_notes
from grid_member.engine.state.operation_table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.lmdb.tables import Environments, Tables
    from grid_member.engine.log.log import Clock, RecordConsumer, Steps
    from grid_member.engine.state.operations import Record
    from grid_member.engine.state.snapshot import Snapshot

COMPACTION_SLACK_BYTES: Final = 16 * 1024 * 1024
"""Garbage that is left alone, so that a small log is not compacted over and over."""
REOPEN_INTERVAL_S: Final = 0.2
"""Seconds between two tries to open LMDB after a commit of unknown outcome."""
ROOM_INTERVAL_S: Final = 0.2
"""Seconds between two looks for room on a full disk, and between two tries to compact there."""
IDLE_S: Final = 1.0
"""Seconds without a record after which LMDB takes over what only the WAL has."""

_REFUSED: Final = "the log cannot take writes now"
_UNKNOWN: Final = "the member stopped before the disk told whether this was written"
_log = logging.getLogger("grid_member.engine.lmdb_log")


class LmdbLog:
    """The log of one shard in a directory that `create_log` made and a lock protects."""

    wants_batches = True
    has_other_readers = False

    def __init__(
        self,
        path: Path,
        shard: int,
        clock: Clock,
        *,
        map_size_bytes: int = MAP_SIZE_BYTES,
        compaction_slack_bytes: int = COMPACTION_SLACK_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        environments: Environments = open_environment,
        wal_bytes: int = WAL_BYTES,
        report: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Open the log; report takes the seconds of each commit, also of those to its WAL.

        0 bytes leave the WAL out.

        Raises:
            EngineError: the files are missing, foreign, of a newer format or damaged.
        """
        self._path = path
        self.shard = shard
        """The shard whose log this is."""
        self._clock = clock
        self._compaction_slack_bytes = compaction_slack_bytes
        self._space = Space(path, reserve_bytes)
        self._wal = Wal(path, shard, wal_bytes, report)
        self._opener = partial(open_tables, path, shard, map_size_bytes, environments, report)
        self._tables: Tables | None = self._open()
        self.ground = _log_ground(path, lambda: self._wal.unlinked)
        self._sequence = self._timestamp_ms = 0
        self._stored_bytes = self._since_snapshot_bytes = self._retry_above_bytes = 0
        self.refusal: Refused | None = None
        """Why nothing can be stored now; None when it can, as far as is known."""
        self._failing = False
        self._consumer: RecordConsumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: Writer | None = None
        self._inbox = Inbox()
        self._job: SnapshotJob | None = None
        self._purging, self._paused = True, False

    def _open(self) -> Tables:
        return self._opener()

    def replay(self) -> Steps:
        """Yield the latest snapshot's parts, then the records after it.

        Raises:
            EngineError: what is stored is damaged.
        """
        tables = self._tables
        if tables is None:
            raise EngineError(f"the log in {self._path} is closed")
        yield from (replay := Replay(tables, self._path)).steps()
        self._sequence = replay.sequence
        self._timestamp_ms = replay.timestamp_ms
        self._stored_bytes = replay.stored_bytes
        if replay.salt:
            self._wal.resume(replay.salt, replay.wal)

    # The event loop's side

    def start(self, consumer: RecordConsumer) -> None:
        """Take records from now on; a thread writes them."""
        self._consumer = consumer
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._write, f"grid-log-{self.shard}")

    def append(self, record: Record) -> None:
        """Take a record; the consumer hears of it once it is synced."""
        self._inbox.append(record)

    def lose_patience(self, within_s: float) -> None:
        """Wait only for so long for a disk that does not tell what became of a commit."""
        self._inbox.lose_patience(within_s)

    def wants_snapshot(self, live_bytes: int) -> bool:
        """Tell whether more than half of the log is garbage; less is enough on a full disk."""
        self._space.live_bytes = live_bytes
        if self._job is not None or self._purging:
            return False
        if self._is_short():
            return self._space.worth_compacting(self._stored_bytes)
        return self._stored_bytes > max(
            2 * live_bytes + self._compaction_slack_bytes, self._retry_above_bytes
        )

    def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot, then purge what it replaces, in pieces between the commits."""
        chunk_bytes = SHORT_CHUNK_BYTES if self._is_short() else SNAPSHOT_CHUNK_BYTES
        self._since_snapshot_bytes = 0
        self._job = SnapshotJob(snapshot, self._space.live_bytes, chunk_bytes)
        self._inbox.wake()

    async def close(self) -> None:
        """Finish the records that were taken, then close LMDB."""
        self._inbox.close()
        if self._writer is not None:
            await self._writer.await_end()
        self._wal.close()
        self._close()

    # The writer thread's side

    def _write(self) -> None:
        if self._space.hold():
            self._wal.make()
        else:
            _log.warning("the log of shard %d gets no reserve from the disk", self.shard)
        while True:
            group, size_bytes = self._next_group()
            if group:
                self._commit(group, size_bytes)
            elif self._inbox.over:
                self._wal.end(self._tables, self._sequence)
                return
            if (group and self.ground.loss is None) or not self.ground.look():
                self._maintain(idle=not group)
                self._look_for_room()
            else:
                self._refuse(self.ground.loss)

    def _next_group(self) -> tuple[list[Record], int]:
        """Wait for something to do; return the records of one transaction, and about their size."""
        waits = self._paused or self.refusal is not None
        patience_s = ROOM_INTERVAL_S if waits else IDLE_S
        if not self._inbox.wait(self._may_compact, patience_s):
            self._paused = False
        return self._inbox.take()

    def _may_compact(self) -> bool:
        return (self._job is not None or self._purging) and not self._paused

    # Commits

    def _commit(self, group: list[Record], size_bytes: int) -> None:
        """Commit the records together; when that fails, once more those that remove something."""
        if self.ground.loss is not None:
            self._reject(group)
            return
        if self.refusal is None and not self._fits(group, size_bytes):
            self._refuse("the disk is full, but for what cleaning the log takes")
        refused: list[Record] = []
        if self.refusal is not None:
            refused, group = split_notes(group)
        error = self._attempt(group)
        if isinstance(error, LostGroundError):
            refused += group
        elif error is not None:
            self._refuse(error)
            growing, group = split_notes(group)
            refused += growing
            self._space.release()
            if self._attempt(group) is not None:
                refused += group
        if refused:
            refusal = self.refusal
            self._look_for_room()  # whoever is refused may try again at once
            self._reject(refused, refusal)

    def _attempt(self, group: list[Record]) -> Exception | None:
        """Commit the records and tell of it; return why not a single one was committed."""
        if not group:
            return None
        sequence, timestamp_ms = self._sequence, max(self._timestamp_ms, self._clock())
        try:
            values = pack_records(group, sequence + 1, timestamp_ms)
            tables = self._tables = self._tables or self._open()
        except Exception as error:
            return error  # nothing was written
        size_bytes = sum(map(len, values))
        if not self._space.roomy or not self._wal.append(sequence + 1, values, size_bytes):
            try:
                self._wal.settle(tables, sequence, values)
            except Exception as error:
                kept = self._is_kept(sequence + len(values), values[-1])
                if not kept:
                    return error if kept is False else EngineError(_UNKNOWN)
        if self.ground.check_write():
            self._refuse(self.ground.loss)
            return LostGroundError(_UNKNOWN)
        self._sequence += len(group)
        self._timestamp_ms = timestamp_ms
        self._stored_bytes += size_bytes
        self._since_snapshot_bytes += size_bytes
        if self._failing and any(map(OPERATIONS.grows, group)):
            self._failing = False
            _log.warning("the log of shard %d takes writes again", self.shard)
        batch = committed_at(group, sequence + 1, timestamp_ms)
        self._tell(lambda consumer: consumer.take_committed(batch))
        return None

    def _is_kept(self, sequence: int, value: bytes) -> bool | None:
        """After a failed commit: tell whether it is there after all, under its last record.

        LMDB refuses everything after a failed write of its root page, until it is opened again;
        and then that page may or may not have been written. Answering before that is known would
        lose an answered write or bring back a refused one, so its records wait meanwhile, and
        those that come are refused. None when it stays unknown until patience ends: the member
        stops, and the next start finds out.

        A page whose write failed may be read back from memory and never reach the disk, and a
        sync says so only once. So a commit that is there counts when another one succeeds; one
        that is not there can not come back then, but is not waited for.
        """
        before = self.refusal
        kept = self._read_back(sequence, value)
        while isinstance(kept, Exception):
            self._refuse(f"it cannot be read back: {kept}")
            # what is in the batch waits for nothing now
            self._tell(lambda consumer: consumer.take_committed(()))
            if not self._inbox.hand_out(REOPEN_INTERVAL_S, self._reject):
                return None
            kept = self._read_back(sequence, value)
        self.refusal = before
        return kept

    def _read_back(self, sequence: int, value: bytes) -> bool | Exception:
        try:
            self.ground.check()  # what is in its place now is not to be written to
            tables = self._reopen()
            kept = tables.record(sequence) == value
            if not kept:
                self._wal.disown()
            try:
                tables.confirm(sequence)
            except lmdb.Error:
                if kept:
                    raise
                self._close()
        except (lmdb.Error, EngineError, OSError) as error:
            return error
        return kept

    def _reopen(self) -> Tables:
        self._close()
        self._tables = self._open()
        return self._tables

    def _close(self) -> None:
        if self._tables is not None:
            self._tables.environment.close()
            self._tables = None

    def _tell(self, news: Callable[[RecordConsumer], None]) -> None:
        if self._loop is not None and self._consumer is not None:
            # A closed loop has nobody left to answer.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(news, self._consumer)

    def _reject(self, records: list[Record], refusal: Refused | None = None) -> None:
        refusal = refusal or self.refusal or Refused(Reason.UNAVAILABLE, _REFUSED)
        self._tell(lambda consumer: consumer.take_rejected(records, refusal))

    # Room

    def _refuse(self, why: object) -> None:
        """Refuse what stores something, until `_look_for_room` finds that it can be tried."""
        if not self._failing:
            self._failing = True
            _log.error("the log of shard %d cannot take writes: %s", self.shard, why)
        self.refusal = Refused(Reason.UNAVAILABLE, f"{_REFUSED}: {why}")

    def _look_for_room(self) -> None:
        """Take writes again when there is room; else have the log compacted if that makes some."""
        if self.refusal is None or self._purging or self.ground.loss is not None:
            return
        try:
            self._tables = self._tables or self._open()
            plenty = self._space.measure(self._tables)
        except (lmdb.Error, EngineError, OSError):
            return
        if plenty:
            if self._space.hold():
                self._wal.make()
            self.refusal = None
        elif self._job is None and self._space.worth_compacting(self._stored_bytes):
            # the consumer asks whether a snapshot is wanted
            self._tell(lambda consumer: consumer.take_committed(()))

    def _fits(self, group: list[Record], size_bytes: int) -> bool:
        """Tell whether the disk has room for what the group stores; purging makes some."""
        if self._purging or self._tables is None:
            return True
        # Asked for all of them: compaction goes by the room that was found.
        fits = self._space.fits(size_bytes, self._tables)
        return fits or not any(map(OPERATIONS.grows, group))

    def _is_short(self) -> bool:
        return self.refusal is not None or self._space.short

    # Compaction

    def _maintain(self, *, idle: bool) -> None:
        """Do one small piece of compaction, or have LMDB take over what is pending."""
        if self._inbox.closing or self._paused:
            return
        job = self._job
        try:
            tables = self._tables = self._tables or self._open()
            if job is not None:
                if self._sequence - len(self._wal.pending) < job.sequence:
                    # What is pending has to go on behind LMDB's last record, or behind the
                    # snapshot.
                    self._wal.settle(tables, self._sequence)
                if not self._space.may_build(tables):
                    raise lmdb.DiskError("there is no room for an image")
                if job.store_next(tables):
                    self._space.building_bytes = job.size_bytes
                else:
                    self._end_snapshot(job)
            elif self._purging:
                self._purging = purge(tables)
            elif idle and self._wal.pending:
                self._wal.settle(tables, self._sequence)
        except Exception as error:
            self._refuse(error)
            if job is not None:
                self._space.doubt()
            # Remove what was written of the snapshot; a later one may find room.
            self._purging = self._paused = True
            self._job = None
            self._retry_above_bytes = self._stored_bytes + self._compaction_slack_bytes
            self._space.release()
            with contextlib.suppress(lmdb.Error, EngineError, OSError):
                self._reopen()  # else the next look at it does

    def _end_snapshot(self, job: SnapshotJob) -> None:
        self._space.learn(job.live_bytes, job.size_bytes)
        self._stored_bytes = job.size_bytes + self._since_snapshot_bytes
        self._purging = True
        self._job = None


def _log_ground(path: Path, unlinked: Callable[[], bool]) -> Ground:
    """Return what a log stands on: its data, and the lock of the directory of its member.

    `unlinked` tells whether another file that the log has open has no name any more.
    """
    base = path.parent.parent
    lock = base / LOCK
    if lock.exists():
        return Ground(base, [lock, path / DATA_FILE], unlinked)
    return Ground(path, [path / DATA_FILE], unlinked)
