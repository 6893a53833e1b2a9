"""Lines that anyone may cause again and again: one at once, then one with a count a period.

A client that sends a thousand malformed requests a second makes two lines in PERIOD_S, not a
thousand a second.
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import logging

Field: TypeAlias = str | int | float | bool | None
Key: TypeAlias = tuple[object, ...]

PERIOD_S: Final = 10.0
MAX_KINDS: Final = 256
"""Different lines that are counted apart; beyond those, lines with the same message are alike."""
FIELDS: Final = "grid_fields"
"""The attribute of a log record with the event's fields."""
REPEATABLE: Final = "grid_repeatable"
"""The attribute that marks a record whose repetitions are counted."""


class _RepeatedLine:
    __slots__ = ("count", "ends_s", "record")

    def __init__(self, record: logging.LogRecord, ends_s: float) -> None:
        self.record = record
        self.ends_s = ends_s
        self.count = 0


class Repeats:
    """Counts the lines that are alike."""

    def __init__(self) -> None:
        self._kinds: dict[Key, _RepeatedLine] = {}
        self._lock = threading.RLock()

    @property
    def pending(self) -> bool:
        """Whether anything is being counted."""
        return bool(self._kinds)

    def admits(self, record: logging.LogRecord, now_s: float) -> bool:
        """Tell whether the record is to be written; count it when it is not."""
        if not getattr(record, REPEATABLE, False):
            return True
        message = record.getMessage()
        key: Key = (record.name, record.levelno, message, *sorted(_fields(record).items()))
        with self._lock:
            if key not in self._kinds and len(self._kinds) >= MAX_KINDS:
                key = (record.name, record.levelno, message)
            found = self._kinds.get(key)
            if found is None:
                self._kinds[key] = _RepeatedLine(record, now_s + PERIOD_S)
                return True
            found.record = record
            found.count += 1
            return False

    def due(self, now_s: float) -> list[logging.LogRecord]:
        """Return a record, with its count, for each kind whose period is over."""
        records = []
        with self._lock:
            over = [(key, kind) for key, kind in self._kinds.items() if kind.ends_s <= now_s]
            for key, kind in over:
                if kind.count:
                    records.append(_with_count(kind.record, kind.count))
                    kind.count = 0
                    kind.ends_s += PERIOD_S
                else:
                    del self._kinds[key]
        return records


def _fields(record: logging.LogRecord) -> dict[str, Field]:
    found: dict[str, Field] = getattr(record, FIELDS, {})
    return found


def _with_count(record: logging.LogRecord, count: int) -> logging.LogRecord:
    counted = copy.copy(record)
    setattr(counted, FIELDS, {**_fields(record), "repeated": count})
    return counted
