"""Python values to neutral nodes: what a program says instead of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grid_member.config.settings.shape import Path, path_text
from grid_member.config.tree import (
    MAX_DEPTH_LEVELS,
    NOWHERE,
    Document,
    Items,
    Node,
    Problem,
    Scalar,
    Section,
)

LARGEST_INTEGER: Final = 2**63 - 1
"""No setting takes more; Python refuses to write out numbers of some thousand digits."""


def read_python(tree: Mapping[str, object]) -> Document:
    """Return nested mappings, lists and values as what a YAML file has below `grid:`.

    The problems are values of other types, names that are no text, and endless nesting.
    """
    problems: list[Problem] = []
    return Document(_node(tree, (), problems), problems)


def _node(value: object, path: Path, problems: list[Problem]) -> Node:
    if isinstance(value, Mapping | list | tuple) and len(path) >= MAX_DEPTH_LEVELS:
        problem = "nested too deep"
    elif isinstance(value, Mapping):
        return _section(value, path, problems)
    elif isinstance(value, list | tuple):
        items = [_node(item, (*path, index), problems) for index, item in enumerate(value)]
        return Items(NOWHERE, tuple(items))
    elif isinstance(value, bool):
        return Scalar(NOWHERE, "true" if value else "false")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        problem = "the number is too large"
    elif isinstance(value, str | int) or value is None:
        return Scalar(NOWHERE, None if value is None else str(value))
    else:
        kinds = "text, an integer, True, False, None, a list or a mapping"
        problem = f"must be {kinds}, not {type(value).__name__}"
    problems.append(Problem(None, path_text(path), problem))
    return Scalar(NOWHERE, None)


def _section(values: Mapping[object, object], path: Path, problems: list[Problem]) -> Section:
    children: dict[str, Node] = {}
    for name, value in values.items():
        if isinstance(name, str):
            children[name] = _node(value, (*path, name), problems)
        else:
            problems.append(Problem(None, path_text(path), "a name must be text"))
    return Section(NOWHERE, children, dict.fromkeys(children, NOWHERE))
