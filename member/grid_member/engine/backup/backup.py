"""Backups: the data of one moment as a store of its own, beside the member's, while writes go on.

    BACKUP-DIR/.creating-UUID/  in the making, locked by the member that makes it
    BACKUP-DIR/backup-N/        complete: what a store holds (see `store`), and a manifest

The logs in it hold one snapshot each and no record. A backup gets its name when all of it is
synced, so whatever ends its making leaves the first form, which the next backup or start removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import uuid
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine.api import EngineError
from grid_member.engine.io.directory_lock import lock_made
from grid_member.engine.io.files import DIRECTORY_MODE, sync_directory
from grid_member.engine.io.store_errors import unusable_error
from grid_member.engine.lmdb.compaction import SNAPSHOT_CHUNK_BYTES, SnapshotJob
from grid_member.engine.lmdb.tables import new_log
from grid_member.engine.storage.exchange import check_unfinished, number_in
from grid_member.engine.storage.identity import IDENTITY_FILE, StoreIdentity, write_identity
from grid_member.engine.storage.manifest import Checksum, Manifest, file_checksum, write_manifest
from grid_member.engine.storage.store import make_directories, shard_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grid_member.engine.state.snapshot import Snapshot

BACKUP: Final = "backup-"
CREATING: Final = ".creating-"
WRITTEN_PERCENT: Final = 80
"""Progress when everything is written; the rest is reading it back for the checksums."""
COMPLETE_PERCENT: Final = 100
_KIND: Final = "the backup directory"
_TAKEN: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})


class BackupInterruptedError(EngineError):
    """A backup was given up because somebody asked for that; nothing is left of it."""


class Draft:
    """A backup in the making. All but `interrupt` may block and belongs to one thread at a time."""

    def __init__(self, backup_dir: Path, place: Path, lock_fd: int) -> None:
        self._backup_dir = backup_dir
        self._place = place
        self._lock_fd = lock_fd
        self._interruption = threading.Event()
        self._told_percent = 0
        self._report_progress: Callable[[int], None] = lambda _: None

    def interrupt(self) -> None:
        """Let `write` give up at its next step. May be called on any thread, at any time."""
        self._interruption.set()

    def write(
        self,
        snapshots: Sequence[Snapshot],
        member: uuid.UUID,
        created_ms: int,
        report_progress: Callable[[int], None],
    ) -> Path:
        """Write the snapshots, one a shard, and return where the complete backup is.

        They are the data of one moment, in milliseconds since the epoch, of the member.
        `report_progress` hears of the progress in percent, on this thread.

        Raises:
            EngineError: the disk is full or fails, or `BackupInterruptedError`; nothing is left.
        """
        try:
            self._report_progress = report_progress
            self._write(snapshots, member, created_ms)
            return self._publish()
        except (OSError, lmdb.Error) as error:
            raise unusable_error(_KIND, self._backup_dir, error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what there is, unless it is complete; once more is harmless."""
        if self._lock_fd < 0:
            return
        # What cannot be removed now is removed by the next backup.
        shutil.rmtree(self._place, ignore_errors=True)
        os.close(self._lock_fd)
        self._lock_fd = -1

    def _write(self, snapshots: Sequence[Snapshot], member: uuid.UUID, created_ms: int) -> None:
        total = sum(map(_part_count, snapshots))
        written = 0
        for shard, snapshot in enumerate(snapshots):
            with new_log(shard_path(self._place, shard), shard) as tables:
                job = SnapshotJob(snapshot, 0, SNAPSHOT_CHUNK_BYTES)
                while job.store_next(tables):
                    done = (written + job.parts_stored) * WRITTEN_PERCENT // total
                    self._advance(min(done, WRITTEN_PERCENT))
                self._advance(0)
            written += job.parts_stored
        write_identity(self._place / IDENTITY_FILE, StoreIdentity(member, len(snapshots)))
        files = self._checksums()
        write_manifest(self._place, Manifest(str(uuid.uuid4()), created_ms, str(member), files))
        sync_directory(self._place)
        self._advance(COMPLETE_PERCENT - 1)

    def _checksums(self) -> dict[str, Checksum]:
        paths = sorted(path for path in self._place.rglob("*") if path.is_file())
        total_bytes = sum(path.stat().st_size for path in paths)
        read_bytes = 0

        def go_on(piece: bytes) -> None:
            nonlocal read_bytes
            read_bytes += len(piece)
            left = COMPLETE_PERCENT - WRITTEN_PERCENT - 1
            self._advance(WRITTEN_PERCENT + read_bytes * left // total_bytes)

        return {str(p.relative_to(self._place)): file_checksum(p, go_on) for p in paths}

    def _advance(self, percent: int) -> None:
        if self._interruption.is_set():
            raise BackupInterruptedError("the backup was interrupted")
        if percent > self._told_percent:
            self._told_percent = percent
            self._report_progress(percent)

    def _publish(self) -> Path:
        number = 1 + max(
            (number_in(path.name, BACKUP) for path in self._backup_dir.iterdir()), default=0
        )
        while True:
            complete = self._backup_dir / f"{BACKUP}{number}"
            try:
                self._place.rename(complete)
                break
            except OSError as error:
                # Another member that shares the directory was faster.
                if error.errno not in _TAKEN:
                    raise
                number += 1
        os.close(self._lock_fd)
        self._lock_fd = -1
        sync_directory(self._backup_dir)
        return complete


def open_draft(backup_dir: Path, base_dir: Path) -> Draft:
    """Begin a backup in backup_dir, made if it is missing; what others left behind is removed.

    Backups must not be inside of base_dir, the member's directory.

    Raises:
        EngineError: backups cannot be made there.
    """
    if backup_dir.resolve().is_relative_to(base_dir.resolve()):
        raise EngineError(
            f"persistence.backup-dir {backup_dir} is inside of persistence.base-dir: "
            "a forced start would wipe what is there; choose another directory"
        )
    try:
        make_directories(backup_dir)
        remove_unfinished(backup_dir)
        place = backup_dir / f"{CREATING}{uuid.uuid4()}"
        place.mkdir(mode=DIRECTORY_MODE)
        return Draft(backup_dir, place, lock_made(place))
    except OSError as error:
        raise unusable_error(_KIND, backup_dir, error) from error


def remove_unfinished(backup_dir: Path) -> None:
    """Remove backups whose making was interrupted by a crash.

    Raises:
        OSError: that is not possible.
    """
    if not backup_dir.is_dir():
        return
    for place in list(backup_dir.glob(f"{CREATING}*")):
        with contextlib.suppress(EngineError, BlockingIOError, FileNotFoundError):
            check_unfinished(place)  # else it is somebody else's
            lock_fd = lock_made(place)  # else it is in the making
            try:
                shutil.rmtree(place)
            finally:
                os.close(lock_fd)


def _part_count(snapshot: Snapshot) -> int:
    """Count the parts of a snapshot, with the one or two that every snapshot begins with."""
    entries = sum(len(found.entries) for found in snapshot.maps.values())
    items = sum(len(waiting) + len(taken) for waiting, taken in snapshot.queues.values())
    return 2 + len(snapshot.system) + len(snapshot.members) + entries + items
