"""Whether the last start died while it opened the store: the file `opening`, there meanwhile.

A damaged page can end the process as LMDB comes to it. The next start would die in the same way,
and nobody would hear why; so it looks at all pages before it lets LMDB do so.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.files import sync_directory
from grid_member.engine.io.store_errors import unusable_error
from grid_member.engine.lmdb.check import check_pages
from grid_member.engine.storage.exchange import OPENING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_log = logging.getLogger("grid_member.engine.opening")


class CrashMarker:
    """The opening of one store, whose directory this process has locked."""

    def __init__(self, store: Path) -> None:
        """Begin nothing yet."""
        self._store = store
        self._mark = store / OPENING

    def begin(self, logs: Iterable[Path]) -> None:
        """Leave the mark; check the logs first when there is one of a start that died.

        Raises:
            DamagedStoreError: a log is damaged. The mark stays, for the next start to look again.
            EngineError: the directory or a log cannot be used.
        """
        try:
            if not self._mark.exists():
                self._leave_mark()
                return
        except OSError as error:
            raise unusable_error("the directory", self._store, error) from error
        _log.warning("the last start died while it opened the store: every page is checked first")
        for path in logs:
            check_pages(path)

    def end(self) -> None:
        """Remove the mark: the store is open, or this start failed and said why."""
        # Not synced, and not insisted on: a mark that is there after all costs a check.
        with contextlib.suppress(OSError):
            self._mark.unlink(missing_ok=True)

    def _leave_mark(self) -> None:
        try:
            os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sync_directory(self._store)
        except OSError as error:
            # A member has to start on a full disk, too: that is how room is made on it.
            if error.errno not in _FULL:
                raise
