"""Which names the patterns of a spec match; quick for as many of both as there may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_NAME: Final = "default"
"""A pattern that matches every name."""


class Patterns:
    """Names of maps or queues, each with one `*` at most."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names = set(patterns)
        self._tails: dict[str, list[str]] = {}
        for pattern in self._names:
            head, star, tail = pattern.partition("*")
            if star:
                self._tails.setdefault(head, []).append(tail)
        self._lengths = sorted({len(head) for head in self._tails})

    def match(self, name: str) -> bool:
        """Return whether one of them matches the name."""
        if name in self._names or DEFAULT_NAME in self._names:
            return True
        # One look for each length of a head, however many patterns there are.
        return any(
            name.endswith(tail)
            for length in self._lengths
            if length <= len(name)
            for tail in self._tails.get(name[:length], ())
            if length + len(tail) <= len(name)
        )
