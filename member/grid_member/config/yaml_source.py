"""YAML text to neutral nodes, with the places kept and the traps of the syntax refused."""

from __future__ import annotations

import re
from typing import Final, Protocol

import yaml
from yaml.reader import ReaderError

from grid_member.config.shape import Path, path_text
from grid_member.config.tree import (
    MAX_DEPTH_LEVELS,
    TOP,
    ConfigError,
    Document,
    Items,
    Node,
    Place,
    Problem,
    Scalar,
    Section,
)

_QUOTED: Final = re.compile(r""" (?!'<|'\\t'|'[],:?}-]')('[^']*'|"[^"]*")""")
"""Something quoted in a message, but for the names and signs of the syntax itself, and a tab."""
_NO_ANCHORS: Final = "anchors and aliases are not allowed, quote a text that begins with & or *"
_SECOND_DOCUMENT: Final = "but found another document"
_NULL_TAG: Final = "tag:yaml.org,2002:null"
_STANDARD_TAG: Final = "tag:yaml.org,2002:"


def read_yaml(text: str, file: str) -> Document:
    """Return what stands below `grid:` in the only document of the text.

    Raises:
        ConfigError: not YAML, an anchor or alias (they can multiply a small file into a huge one),
            several documents, too deep, or another top element.
    """
    problems: list[Problem] = []
    try:
        root = _Loader(text, file, problems).get_single_node()
    except yaml.YAMLError as error:
        raise ConfigError([*problems, _syntax_problem(error, text, file)]) from None
    if problems:
        raise ConfigError(problems)
    if not isinstance(root, yaml.MappingNode):
        place = _place(root.start_mark, file) if root else Place(file, 1, 1)
        raise ConfigError([Problem(place, "", f"the top element must be {TOP}:")])
    return Document(_top(_section(root, file, None, problems), problems), problems)


class _Loader(yaml.SafeLoader):
    """Makes nodes of the text without anchors, and not deeper than is sensible."""

    def __init__(self, text: str, file: str, problems: list[Problem]) -> None:
        super().__init__(text)
        self._file = file
        self._problems = problems
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; an alias is noted and taken for nothing."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        place = _place(event.start_mark, self._file)
        if getattr(event, "anchor", None) is not None:
            self._problems.append(Problem(place, "", _NO_ANCHORS))
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode(_NULL_TAG, "")
        if self._depth > MAX_DEPTH_LEVELS:
            raise ConfigError([*self._problems, Problem(place, "", "nested too deep")])
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _top(root: Section, problems: list[Problem]) -> Node:
    if TOP not in root.children:
        raise ConfigError([Problem(root.place, "", f"the top element must be {TOP}:")])
    problems += [
        Problem(root.names[other], path_text((other,)), f"unknown element beside {TOP}")
        for other in root.children
        if other != TOP
    ]
    return root.children[TOP]


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    if isinstance(error, ReaderError):
        before = text[: error.position].split("\n")
        place = Place(file, len(before), len(before[-1]) + 1)
        return Problem(place, "", "not YAML: a control character")
    mark = getattr(error, "problem_mark", None)
    reason = str(getattr(error, "problem", None) or "cannot be read")
    if reason == _SECOND_DOCUMENT:
        return Problem(_place(mark, file), "", "one document is allowed")
    # The parser quotes what it stumbled over, and that may be a piece of a password.
    return Problem(_place(mark, file), "", f"not YAML: {_QUOTED.sub('', reason)}")


class _Mark(Protocol):
    """Where the parser was; the C and the Python parser have a class of their own each."""

    line: int
    column: int


def _place(mark: _Mark | None, file: str) -> Place:
    if mark is None:
        return Place(file, 1, 1)
    return Place(file, mark.line + 1, mark.column + 1)


def _node(node: yaml.Node, file: str, path: Path, problems: list[Problem]) -> Node:
    place = _place(node.start_mark, file)
    if not node.tag.startswith(_STANDARD_TAG):
        message = "tags are not allowed, quote a text that begins with !"
        problems.append(Problem(place, path_text(path), message))
    if isinstance(node, yaml.MappingNode):
        return _section(node, file, path, problems)
    if isinstance(node, yaml.SequenceNode):
        items = [
            _node(item, file, (*path, index), problems) for index, item in enumerate(node.value)
        ]
        return Items(place, tuple(items))
    return Scalar(place, None if node.tag == _NULL_TAG else str(node.value))


def _section(
    node: yaml.MappingNode, file: str, path: Path | None, problems: list[Problem]
) -> Section:
    """Read a mapping; path is None for the whole document, whose only name is no part of paths."""
    children: dict[str, Node] = {}
    names: dict[str, Place] = {}
    for name_node, value_node in node.value:
        place = _place(name_node.start_mark, file)
        if not isinstance(name_node, yaml.ScalarNode):
            problems.append(Problem(place, path_text(path or ()), "a name must be a plain word"))
            continue
        name = str(name_node.value)
        below: Path = () if path is None else (*path, name)
        if name in children:
            first = names[name]
            shown = path_text(below or (name,))
            problems.append(Problem(place, shown, f"is there twice, first in line {first.line}"))
            continue
        children[name] = _node(value_node, file, below, problems)
        names[name] = place
    return Section(_place(node.start_mark, file), children, names)
