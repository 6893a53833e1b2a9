"""Checking the pages of a log before LMDB is let at them.

LMDB trusts its file. A wrong number in a page can make it read where nothing is, and then the
system ends the process before anything can be said about that. So where there is reason for doubt
every page is walked first, without LMDB; that takes its time, which a normal start is spared.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import lmdb
from lmdb.verify import verify

from grid_member.engine.api import EngineError
from grid_member.engine.io.store_errors import (
    LOG_ERRORS,
    DamagedStoreError,
    damage_error,
    open_error,
)
from grid_member.engine.lmdb.pages import Pages, open_file

if TYPE_CHECKING:
    from pathlib import Path

_PAGE_NUMBER: Final = re.compile(r"page (\d+)")
_LOST: Final = re.compile(r"\d+ page\(s\) are neither reachable nor in the freeDB .*", re.ASCII)


def check_pages(path: Path, *, may_lose: bool = True) -> None:
    """Walk all pages that the log in the directory path has.

    There may be pages that are neither used nor free if it `may_lose` some: LMDB never comes to
    them, and has left some behind by itself.

    Raises:
        DamagedStoreError: they are not as LMDB writes them.
        EngineError: they cannot be read now.
    """
    try:
        problems = verify(str(path))  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        raise damage_error(str(path), "it holds no log") from None
    except LOG_ERRORS as error:
        raise open_error(path, error) from error
    if may_lose:
        problems = [problem for problem in problems if not _LOST.fullmatch(problem)]
    if problems:
        # Not in the words of the check: they may have bytes of a page in them, which may be data.
        found = _PAGE_NUMBER.search(" ".join(problems))
        place = f"page {found[1]}" if found else "its root page"
        raise damage_error(
            f"the log in {path}", f"its pages contradict each other, first at {place}"
        )


def explained_error(path: Path, error: Exception) -> EngineError:
    """Return the error of a log that cannot be opened or read.

    What LMDB says does not always tell whether the content is the reason; the pages do.
    """
    problem = open_error(path, error)
    if not isinstance(error, lmdb.Error) or isinstance(problem, DamagedStoreError):
        return problem
    try:
        check_pages(path)
    except DamagedStoreError as found:
        return found
    except EngineError:
        return problem  # nor can it be read for the check
    return problem


def check_size(path: Path, limit_bytes: int) -> None:
    """Refuse a log whose root page counts more pages than there can be.

    LMDB would ask for so much address space, which fails like a lack of memory.

    Raises:
        DamagedStoreError: it does.
        OSError: the file cannot be read.
    """
    with open_file(path) as file:
        claimed_bytes = Pages(file).claimed_bytes
    if claimed_bytes > limit_bytes:
        counted = f"its root page counts {claimed_bytes} bytes of pages"
        raise damage_error(f"the log in {path}", counted)


def check_length(path: Path, environment: lmdb.Environment) -> None:
    """Check a file that is shorter than its pages are many.

    LMDB may leave free pages at the end unwritten. When other pages are missing it kills the
    process as it comes to them, so every page is looked at first: rare, and worth its time.

    Raises:
        DamagedStoreError: pages are missing.
        OSError: the file cannot be made as long as it has to be.
    """
    size_bytes = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    file = path / "data.mdb"
    found_bytes = file.stat().st_size
    if found_bytes >= size_bytes:
        return
    try:
        check_pages(path, may_lose=False)
    except DamagedStoreError as error:
        cut = f"the file is cut, {found_bytes} of {size_bytes} bytes are left"
        raise damage_error(f"the log in {path}", cut) from error
    os.truncate(file, size_bytes)
