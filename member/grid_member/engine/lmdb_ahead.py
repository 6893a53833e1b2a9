"""Zeros behind the pages of a log, which its next commits then write over.

A sync of a file that grows waits for the file system's own journal, too, which has to know of its
new length: about twice the time and the CPU of a sync within the length that it had (ADR 0041).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine.lmdb_tables import DATA_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.lmdb_tables import Tables

AHEAD_BYTES: Final = 1024 * 1024
"""How far behind its last page a log is made to reach at once."""
LEAST_BYTES: Final = AHEAD_BYTES // 4
"""With how much left that is done again."""
SMALL_BYTES: Final = 64 * 1024
"""By how much a commit may have lengthened the log: with larger ones zeros cost more than they
save."""

_ZEROS: Final = bytes(AHEAD_BYTES)


class Ahead:
    """For the thread that writes the log, between its commits."""

    def __init__(self, path: Path) -> None:
        """Write nothing yet. The log is in the directory path."""
        self._file = path / DATA_FILE
        self._used_bytes = 0
        self._end_bytes = 0

    def keep(self, tables: Tables | None) -> None:
        """See that the next small commits do not lengthen the file. Never raises.

        Args:
            tables: of the log; None when nothing is to be written.
        """
        if tables is None:
            return
        with contextlib.suppress(OSError, lmdb.Error):
            used_bytes = tables.used_bytes()
            grown_bytes, self._used_bytes = used_bytes - self._used_bytes, used_bytes
            if grown_bytes > SMALL_BYTES or self._end_bytes - used_bytes >= LEAST_BYTES:
                return
            # Also when it fails, as on a full disk: it is tried again after so much more.
            self._end_bytes = used_bytes + AHEAD_BYTES
            self._lengthen(self._end_bytes)

    def _lengthen(self, end_bytes: int) -> None:
        # Only ever behind the end: nothing that LMDB wrote can be hit.
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(file).st_size
            missing_bytes = end_bytes - size_bytes
            if 0 < missing_bytes <= AHEAD_BYTES:
                written_bytes = os.write(file, memoryview(_ZEROS)[:missing_bytes])
                if written_bytes < missing_bytes:
                    os.ftruncate(file, size_bytes)  # the last of a disk is for what needs it
        finally:
            os.close(file)
