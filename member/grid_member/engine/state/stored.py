"""Entries and items in memory: as small as what they hold.

There may be millions. Each is bytes, or a tuple of what the garbage collector need not look at,
so that it soon forgets it; what callers get is made for them when they get it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from grid_member.engine.api import Entry

StoredEntry: TypeAlias = bytes | tuple[bytes, str]
"""A map entry: its value, together with its content type if it has one."""
QueuedItem: TypeAlias = tuple[int, bytes, str | None]
"""A queue item: identifier, value, content type."""
InFlightItem: TypeAlias = tuple[QueuedItem, bytes, int]
"""An item in flight: its taker, and the identifier of the take."""


@lru_cache(maxsize=1024)
def shared(text: str) -> str:
    """Return one object for equal texts met lately: content types, a few of millions of entries.

    Not `sys.intern`: some versions of Python never forget what it was given.
    """
    return text


def as_entry(stored: StoredEntry) -> Entry:
    """Return what a reader gets of an entry."""
    return Entry(stored, None) if isinstance(stored, bytes) else Entry(*stored)


def as_stored(value: bytes, content_type: str | None) -> StoredEntry:
    """Return what is kept of an entry."""
    return value if content_type is None else (value, content_type)


def value_bytes(stored: StoredEntry) -> int:
    """Return the length of an entry's value."""
    return len(stored) if isinstance(stored, bytes) else len(stored[0])
