"""The member's log: one line an event, as text or as JSON, with named fields.

No value, key or credential may be a field of an event at info level or above.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.handler import install
from grid_member.telemetry.repeats import FIELDS, REPEATABLE, Field

if TYPE_CHECKING:
    from grid_member.config.model.member import LoggingConfig

ROOT: Final = "grid"


def event(logger: logging.Logger, level: int, message: str, **fields: Field) -> None:
    """Write one event; fields are shown after the message or as JSON members."""
    logger.log(level, message, extra={FIELDS: fields})


def repeatable(logger: logging.Logger, level: int, message: str, **fields: Field) -> None:
    """Write an event that a client can cause as often as it likes: repetitions are counted."""
    logger.log(level, message, extra={FIELDS: fields, REPEATABLE: True})


def failure(logger: logging.Logger, message: str, error: BaseException) -> None:
    """Write an unexpected error: its type and where, not its text, which may quote a value."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{f.name}:{f.lineno}" for f in reversed(frames[-6:]))
    repeatable(logger, logging.ERROR, message, error=type(error).__name__, where=where)


def set_up(config: LoggingConfig) -> None:
    """Send every log line of the process to stderr in the configured format."""
    install(JsonLines() if config.format == "json" else TextLines(), config.level.upper())


class _Lines(logging.Formatter):
    def _time(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"

    def _fields(self, record: logging.LogRecord) -> dict[str, Field]:
        fields: dict[str, Field] = dict(getattr(record, FIELDS, {}))
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
        return fields


class TextLines(_Lines):
    """`2026-01-01T00:00:00.000Z INFO listening port=5701`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; text from outside is quoted, so it cannot make a line of its own."""
        shown = [f"{k}={_quote(v)}" for k, v in self._fields(record).items()]
        message = record.getMessage().encode("unicode_escape").decode("ascii")
        return " ".join([self._time(record), record.levelname, message, *shown])


class JsonLines(_Lines):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line: time, level, logger, message and the event's fields."""
        line: dict[str, Field] = {
            "time": self._time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line | self._fields(record))


def _quote(value: Field) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text)
