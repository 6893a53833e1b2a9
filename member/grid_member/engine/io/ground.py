"""Whether the files that a process has open are still where the next start looks for them.

A directory that is removed, moved, unmounted or replaced takes what is open with it: writes and
syncs go on as if nothing was, and all of it is gone with the process. So the thread that
writes looks, after each write and once a second, whether the paths lead to the same files as when
they were opened.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_REMEDY: Final = (
    "put it back as it was, or start the member again on the directory that is to count"
)
_REMEDY_OF_SEVERAL: Final = (
    "put it back as it was and start this member again, or start it on an empty directory: then it "
    "copies everything from the others"
)


class LostGroundError(EngineError):
    """What was written is where no start finds it."""


class Ground:
    """The files of one directory. Looks may block, as the disk may."""

    def __init__(
        self,
        directory: Path,
        paths: Iterable[Path],
        unlinked: Callable[[], bool] = lambda: False,
        *,
        of_several: bool = False,
    ) -> None:
        """Note what is at the paths now, which are open and in the directory that people know.

        `unlinked` tells whether another open file of it has no name any more. A member `of_several`
        does not go on by itself when the directory is back.
        """
        self._of_several = of_several
        self._unlinked = unlinked
        self._directory = directory
        self._files = [(os.fspath(path), *_file_at(path)) for path in paths]
        self._unsure = False
        self.loss: str | None = None
        """Why nothing that is written now lasts, as of the last look; None when it does."""

    def look(self) -> bool:
        """Tell whether the files are not there any more."""
        return self._note(self._trouble() or self._read_only())

    def check(self) -> None:
        """Look before files are opened again.

        Raises:
            LostGroundError: other ones would be.
        """
        if self.look():
            raise LostGroundError(self.loss)

    def check_write(self) -> bool:
        """Tell the same after a write; when they are not, what came of it shows the next start.

        Then they stay lost for this process, whatever comes back.
        """
        lost = self._note(self._trouble())
        self._unsure = self._unsure or lost
        return lost

    def _note(self, trouble: str | None) -> bool:
        if trouble is not None or not self._unsure:
            self.loss = trouble
        return self.loss is not None

    def _read_only(self) -> str | None:
        """Return what to say of a disk that its system has made read-only, as after an error."""
        with contextlib.suppress(OSError):
            if os.statvfs(self._directory).f_flag & os.ST_RDONLY:
                again = " and start this member again" if self._of_several else ""
                told = f"the file system of {self._directory} is read-only now"
                return f"{told}: let it take writes{again}"
        return None

    def _trouble(self) -> str | None:
        for path, device, number in self._files:
            try:
                found = os.stat(path)
            except FileNotFoundError:
                return self._problem(f"{path} is gone")
            except OSError as error:
                return self._problem(f"{path} cannot be looked at: {error.strerror}")
            if found.st_ino != number or found.st_dev != device:
                return self._problem(f"{path} is another file")
        return self._problem("a file of it is gone") if self._unlinked() else None

    def _problem(self, what: str) -> str:
        return (
            f"{self._directory} was removed, replaced or unmounted while the member ran ({what}): "
            f"{_REMEDY_OF_SEVERAL if self._of_several else _REMEDY}"
        )


def _file_at(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
