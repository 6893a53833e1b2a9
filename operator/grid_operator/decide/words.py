"""How the API writes what members write."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "Unknown"


def camel_case(state: str) -> str:
    """Return a member's state as the API writes it: `NO_MIGRATION` is `NoMigration`."""
    return state if state == UNKNOWN else "".join(w.capitalize() for w in state.split("_"))


def printable(text: str) -> str:
    """Return the text on one line, with spaces for what a terminal or a status cannot hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def agreed(values: set[str]) -> str:
    """Return the one value that all have, `Unknown` when there is none or they differ."""
    return next(iter(values)) if len(values) == 1 else UNKNOWN
