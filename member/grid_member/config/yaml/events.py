"""YAML text to the events of PyYAML, by libyaml where it does what the Python parser does.

libyaml is many times as fast and reads a few texts otherwise: it ends lines elsewhere, accepts what
the Python parser refuses, and says something else, at another place, of what both refuse. What
those texts look like is known here, and they are left to the Python parser; so is everything where
PyYAML comes without libyaml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import yaml

from grid_member.config.tree import SourcePosition

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else None
_READ_OTHERWISE: Final = re.compile("[\t\x85\u2028\u2029\ufeff]|\r(?!\n)|[|>][-+0-9]*#")
"""Tabs, the rarer ends of lines, byte order marks inside of the text, and a comment right behind
the sign of a block."""


class TextMark(Protocol):
    """Where the parser was; the C and the Python parser have a class of their own each."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class YamlSource:
    """Events, and the places that their marks mean."""

    file: str
    events: Iterator[yaml.Event]
    end: tuple[int, int] | None = None
    """Line and column, counted from 0, where libyaml's text ends."""

    def place(self, mark: TextMark | None) -> SourcePosition:
        """Return the place of a mark."""
        line, column = (mark.line, mark.column) if mark else (0, 0)
        if self.end is not None and line > self.end[0]:
            # libyaml is in a line of its own behind a last line that does not end.
            line, column = self.end
        return SourcePosition(self.file, line + 1, column + 1)


class DoubtError(Exception):
    """Perhaps the Python parser reads the text otherwise."""


def quick_source(text: str, file: str) -> YamlSource | None:
    """Return what libyaml reads; None when it is not there or may read something else.

    The events raise DoubtError when that turns out later. As libyaml finds errors of its own, only
    what it has read to the end counts.
    """
    if QUICK_LOADER is None or _READ_OTHERWISE.search(text):
        return None
    end = (text.count("\n"), len(text) - text.rfind("\n") - 1)
    return YamlSource(file, _check_events(yaml.parse(text, Loader=QUICK_LOADER)), end)


def slow_source(text: str, file: str) -> YamlSource:
    """Return what the Python parser reads."""
    return YamlSource(file, yaml.parse(text, Loader=yaml.SafeLoader))


def _check_events(events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
    """Pass the events on as long as the Python parser has the same."""
    in_flow = [False]
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            # In braces nothing has another place, and a question mark ends a text.
            if in_flow[-1] and event.implicit[0] and (not event.value or "?" in event.value):
                raise DoubtError
        elif isinstance(event, yaml.CollectionStartEvent):
            in_flow.append(bool(event.flow_style))
        elif isinstance(event, yaml.CollectionEndEvent):
            in_flow.pop()
        if getattr(event, "tag", None) is not None:
            raise DoubtError
        yield event
