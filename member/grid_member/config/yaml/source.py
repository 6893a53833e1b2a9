"""YAML text to neutral nodes, with the places kept and the traps of the syntax refused."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final, TypeAlias

import yaml
from yaml.reader import ReaderError

from grid_member.config.settings.shape import Path, path_text
from grid_member.config.tree import (
    MAX_DEPTH_LEVELS,
    OTHER_TOP,
    TOP,
    ConfigError,
    Document,
    Items,
    Node,
    Problem,
    Scalar,
    Section,
    SourcePosition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_Mark: TypeAlias = "yaml.error.Mark | yaml._yaml.Mark | None"
_QUOTED: Final = re.compile(r""" (?!'<|'\\t'|'[],:?}-]')('[^']*'|"[^"]*")""")
"""Something quoted in a message, but for the names and signs of the syntax itself, and a tab."""
_NO_ANCHORS: Final = "anchors and aliases are not allowed, quote a text that begins with & or *"
_NO_TAGS: Final = "tags are not allowed, quote a text that begins with !"
_SECOND_DOCUMENT: Final = "but found another document"
_NULL_TAG: Final = "tag:yaml.org,2002:null"
_STANDARD_TAG: Final = "tag:yaml.org,2002:"
_NOT_SPECIFIC: Final = (None, "!")
"""Tags that leave it to the value what it is."""
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


def read_yaml(text: str, file: str) -> Document:
    """Return what stands below `grid:` in the only document of the text.

    Raises:
        ConfigError: not YAML, an anchor or alias (they can multiply a small file into a huge one),
            several documents, too deep, or another top element.
    """
    # Not by libyaml, which reads some texts otherwise and tells of mistakes in other words.
    reader = _YamlReader(yaml.parse(text, Loader=yaml.SafeLoader), file)
    try:
        return reader.document()
    except yaml.YAMLError as error:
        problem = _syntax_problem(error, text, file)
        raise ConfigError([*reader.syntax_problems, problem]) from None


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    if isinstance(error, ReaderError):
        before = text[: error.position].split("\n")
        place = SourcePosition(file, len(before), len(before[-1]) + 1)
        return Problem(place, "", "not YAML: a control character")
    place = _place(file, getattr(error, "problem_mark", None))
    reason = str(getattr(error, "problem", None) or "cannot be read")
    if reason == _SECOND_DOCUMENT:
        return Problem(place, "", "one document is allowed")
    # The parser quotes what it stumbled over, and that may be a piece of a password.
    return Problem(place, "", f"not YAML: {_QUOTED.sub('', reason)}")


def _place(file: str, mark: _Mark) -> SourcePosition:
    return (
        SourcePosition(file, mark.line + 1, mark.column + 1) if mark else SourcePosition(file, 1, 1)
    )


class _StopError(yaml.YAMLError):
    """YAML that the parser does not refuse."""

    def __init__(self, problem: str, problem_mark: _Mark) -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_mark = problem_mark


class _YamlReader:
    """Makes nodes of the events of one document, not deeper than is sensible."""

    def __init__(self, events: Iterator[yaml.Event], file: str) -> None:
        self._events = events
        self._place = functools.partial(_place, file)
        self._anchors: set[str] = set()
        self._depth = 0
        self._problems: list[Problem] = []
        self.syntax_problems: list[Problem] = []
        """Anchors and aliases, without which nothing else is told but an error that ends all."""

    def document(self) -> Document:
        next(self._events)
        event = next(self._events)
        root: Node | None = None
        if not isinstance(event, yaml.StreamEndEvent):
            event = next(self._events)
            root = self._node(event, None)
            self._end()
        if self.syntax_problems:
            raise ConfigError(self.syntax_problems)
        if not isinstance(root, Section) or TOP not in root.children:
            place = root.place if root else self._place(None)
            other = isinstance(root, Section) and OTHER_TOP in root.children
            message = f"{OTHER_TOP}: is another product's: write {TOP}: in its place"
            if not other:
                message = f"the top element must be {TOP}:"
            raise ConfigError([Problem(place, "", message)])
        self._problems += [
            Problem(root.names[other], path_text((other,)), f"unknown element beside {TOP}")
            for other in root.children
            if other != TOP
        ]
        return Document(root.children[TOP], self._problems)

    def _end(self) -> None:
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise _StopError(_SECOND_DOCUMENT, after.start_mark)

    def _node(self, event: yaml.Event, path: Path | None) -> Node:
        """Return the node that begins with an event.

        The path is None for the whole document, whose only name is no part of paths.
        """
        place = self._place(event.start_mark)
        self._check(event, place)
        if isinstance(event, yaml.ScalarEvent):
            self._check_tag(event.tag, place, path)
            return Scalar(place, None if _is_nothing(event) else event.value)
        self._depth += 1
        node: Node = Scalar(place, None)
        if isinstance(event, yaml.SequenceStartEvent):
            self._check_tag(event.tag, place, path)
            node = Items(place, tuple(self._items(path or ())))
        elif isinstance(event, yaml.MappingStartEvent):
            if path is not None:
                self._check_tag(event.tag, place, path)
            node = self._section(place, path)
        self._depth -= 1
        return node

    def _check(self, event: yaml.Event, place: SourcePosition) -> None:
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self.syntax_problems.append(Problem(place, "", _NO_ANCHORS))
        if isinstance(event, yaml.AliasEvent):
            return
        if self._depth > MAX_DEPTH_LEVELS:
            raise ConfigError([*self.syntax_problems, Problem(place, "", "nested too deep")])
        if anchor in self._anchors:
            raise _StopError("second occurrence", event.start_mark)
        if anchor is not None:
            self._anchors.add(anchor)

    def _check_tag(self, tag: str | None, place: SourcePosition, path: Path | None) -> None:
        if tag is not None and tag != "!" and not tag.startswith(_STANDARD_TAG):
            self._problems.append(Problem(place, path_text(path or ()), _NO_TAGS))

    def _items(self, path: Path) -> Iterator[Node]:
        index = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, (*path, index))
            index += 1

    def _section(self, place: SourcePosition, path: Path | None) -> Section:
        children: dict[str, Node] = {}
        names: dict[str, SourcePosition] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            name_place = self._place(event.start_mark)
            name = self._name(event, path)
            below = () if path is None or name is None else (*path, name)
            noted = len(self._problems)
            node = self._node(next(self._events), below)
            if name is not None and name not in children:
                children[name] = node
                names[name] = name_place
                continue
            # Nothing more is told of what has no name, or one that is there.
            del self._problems[noted:]
            if name is not None:
                message = f"is there twice, first in line {names[name].line}"
                self._problems.append(Problem(name_place, path_text(below or (name,)), message))
        return Section(place, children, names)

    def _name(self, event: yaml.Event, path: Path | None) -> str | None:
        if isinstance(event, yaml.ScalarEvent):
            self._check(event, self._place(event.start_mark))
            return str(event.value)
        noted = len(self._problems)
        place = self._node(event, path).place
        del self._problems[noted:]
        self._problems.append(Problem(place, path_text(path or ()), "a name must be a plain word"))
        return None


def _is_nothing(event: yaml.ScalarEvent) -> bool:
    if event.tag in _NOT_SPECIFIC:
        return bool(event.implicit[0]) and event.value in _NULLS
    return bool(event.tag == _NULL_TAG)
