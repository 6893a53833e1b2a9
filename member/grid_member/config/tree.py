"""The neutral form of a configuration document: nodes with places, whatever syntax they came from.

A syntax (YAML, XML, Python values) turns what was written into these nodes; everything behind
them, the table of settings, the validation and the model, is the same for all of them.

    ConfigError        one or more Problems, each with its place
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

TOP: Final = "grid"
"""The one top element of a document."""
OTHER_TOP: Final = "hazelcast"
"""The top element of the configurations that most others come from."""
MAX_DOCUMENT_BYTES: Final = 1 << 20
MAX_DEPTH_LEVELS: Final = 32


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where something was written: file name, line and column, both counted from 1.

    What is in no file has line 0: an environment variable is named as `file`.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


NOWHERE: Final = SourcePosition("", 0, 0)
"""The place of what a program said; a problem there has no place at all."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf, as text; its type is the setting's business. None is an empty YAML value."""

    place: SourcePosition
    text: str | None


@dataclass(frozen=True, slots=True)
class Section:
    """Named children in the order of the document."""

    place: SourcePosition
    children: Mapping[str, Node]
    names: Mapping[str, SourcePosition]
    """The place of each child's name."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    place: SourcePosition
    items: tuple[Node, ...]


Node: TypeAlias = Scalar | Section | Items


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration, and where."""

    place: SourcePosition | None
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        element = f"{self.path}: " if self.path else ""
        return f"{where}{element}{self.message}"


class ConfigError(Exception):
    """A configuration that cannot be used; `problems` has everything that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Document:
    """What a syntax read: the node below `grid`, and what is wrong with the writing itself."""

    root: Node
    problems: list[Problem] = field(default_factory=list)
