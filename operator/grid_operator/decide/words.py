"""How the API writes what members write."""

from __future__ import annotations

import re
from typing import Final

_COUNT: Final = re.compile(r"(?<!\S)\d+(?:\.\d+)?(?!\S)")
UNKNOWN: Final = "Unknown"


def camel_case(state: str) -> str:
    """Return a member's state as the API writes it: `NO_MIGRATION` is `NoMigration`."""
    return state if state == UNKNOWN else "".join(w.capitalize() for w in state.split("_"))


def printable(text: str) -> str:
    """Return the text on one line, with spaces for what a terminal or a status cannot hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def without_counts(text: str) -> str:
    """Return the text without numbers that stand by themselves: such ones change all the time."""
    return _COUNT.sub("some", text)


def with_reason(text: str, reason: str) -> str:
    """Return the text with its reason behind it, if there is one."""
    return f"{text}: {reason}" if reason else text


def agreed(values: set[str]) -> str:
    """Return the one value that all have, `Unknown` when there is none or they differ."""
    return next(iter(values)) if len(values) == 1 else UNKNOWN
