"""Room on the disk of one log: how much there is, and a reserve that removals may use up.

A log is compacted by writing a snapshot of what lives before what it replaces is removed. So there
has to be room for one more copy of what lives, or the disk would be full for good: no removal
could ever free anything. What stores something is therefore refused while that room is missing;
what removes something goes on, on a full disk into the reserve.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

import lmdb

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.lmdb.tables import Tables

RESERVE_BYTES: Final = 4 * 1024 * 1024
"""Kept for removals on a full disk: tens of thousands of them, or one clear of everything."""
RESERVE_FILE: Final = "reserve"
FIRST_SNAPSHOT_RATIO: Final = 1.5
"""Bytes of a snapshot for each live byte, before the first snapshot tells."""
MAX_SNAPSHOT_RATIO: Final = 8.0
"""Where doubts about that end."""
SNAPSHOT_MARGIN: Final = 1.1
"""How much larger than the last snapshot, relatively, the next may become."""
COMMIT_BYTES: Final = 64 * 1024
"""Pages that a commit writes beside its records, about."""


class Space:
    """Measures the room of the log in a directory and holds its reserve.

    The event loop's thread asks `short` and `worth_compacting` and sets `live_bytes`; everything
    else belongs to the thread that writes the log.
    """

    def __init__(self, path: Path, reserve_bytes: int) -> None:
        self.live_bytes = 0
        """What lives in the state."""
        self.building_bytes = 0
        """What has been stored of a snapshot on its way."""
        self._path = path
        self._reserve_bytes = reserve_bytes
        self._held_bytes = 0
        self._room_bytes = 0
        self._growth_bytes = 0
        self._snapshot_ratio = FIRST_SNAPSHOT_RATIO

    # The reserve

    def hold(self) -> bool:
        """Take the reserve, or keep it; False when the disk does not give it."""
        if self._held_bytes:
            return True
        with contextlib.suppress(OSError):
            file = os.open(self._path / RESERVE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, self._reserve_bytes)
                self._held_bytes = self._reserve_bytes
            except OSError:
                os.ftruncate(file, 0)  # a part of it may have been given
            finally:
                os.close(file)
        return self._held_bytes > 0

    def release(self) -> None:
        """Give the reserve back to the disk, for the log to grow into."""
        self._held_bytes = 0
        with contextlib.suppress(OSError):
            os.truncate(self._path / RESERVE_FILE, 0)

    # Room

    def measure(self, tables: Tables) -> bool:
        """Look how much could be stored; True when that is plenty.

        Raises:
            OSError, lmdb.Error: the disk does not say.
        """
        disk = os.statvfs(self._path)
        disk_bytes = disk.f_bavail * disk.f_frsize + self._held_bytes
        free_bytes, growth_bytes = tables.free_bytes()
        self._growth_bytes = min(disk_bytes, growth_bytes)
        self._room_bytes = free_bytes + self._growth_bytes
        # More than `fits` asks for, so that a log at the edge does not change its mind at once.
        return self._room_bytes >= self._needed_bytes + self._reserve_bytes // 2 + COMMIT_BYTES

    def fits(self, size_bytes: int, tables: Tables) -> bool:
        """Tell whether records of so many bytes fit, and a snapshot after them."""
        taken_bytes = 2 * size_bytes + COMMIT_BYTES
        if self._room_bytes < 2 * self._needed_bytes + taken_bytes:
            with contextlib.suppress(OSError, lmdb.Error):  # else what was known holds
                self.measure(tables)
        fits = self._room_bytes >= self._needed_bytes + taken_bytes
        self._room_bytes -= taken_bytes
        return fits

    def may_build(self, tables: Tables) -> bool:
        """Tell whether a snapshot may go on: one that outgrows the free pages must leave a reserve.

        Raises:
            OSError: the disk does not say.
        """
        before_bytes = self._growth_bytes
        self.measure(tables)
        return self._growth_bytes >= min(before_bytes, self._reserve_bytes // 2)

    @property
    def short(self) -> bool:
        """Whether garbage had better be removed early."""
        return self._room_bytes < 2 * self._needed_bytes

    @property
    def roomy(self) -> bool:
        """Whether there is room for more than what only a log's WAL has."""
        return self._room_bytes >= self._needed_bytes + self._reserve_bytes

    def worth_compacting(self, stored_bytes: int) -> bool:
        """Tell whether a snapshot would fit and save a fifth of what is stored."""
        saved_bytes = stored_bytes - self._snapshot_bytes
        wanted_bytes = stored_bytes // 5 + self._reserve_bytes // 4
        return saved_bytes > wanted_bytes and self._room_bytes > self._snapshot_bytes

    def learn(self, live_bytes: int, snapshot_bytes: int) -> None:
        """Hear how large a snapshot became."""
        self.building_bytes = 0
        if live_bytes:
            self._snapshot_ratio = max(1.0, snapshot_bytes / live_bytes) * SNAPSHOT_MARGIN

    def doubt(self) -> None:
        """Hear that compaction failed where there should have been room enough."""
        self.building_bytes = 0
        self._snapshot_ratio = min(MAX_SNAPSHOT_RATIO, self._snapshot_ratio * FIRST_SNAPSHOT_RATIO)

    @property
    def _snapshot_bytes(self) -> int:
        return int(self.live_bytes * self._snapshot_ratio)

    @property
    def _needed_bytes(self) -> int:
        return max(0, self._snapshot_bytes - self.building_bytes) + self._reserve_bytes
