"""What a document says, value by value, with the defaults of the table behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grid_member.config.settings.shape import Path, Shape, path_text, settings_shape
from grid_member.config.tree import NOWHERE, Problem, SourcePosition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.config.settings.setting import Value


@dataclass(slots=True)
class Values:
    """Values by path, the place of every element, and what is wrong."""

    shape: Shape = field(default_factory=settings_shape)
    values: dict[Path, Value] = field(default_factory=dict)
    places: dict[Path, SourcePosition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What works and may not do what was meant."""

    def complain(self, path: Path, message: str) -> None:
        """Note a problem at the place of path or of its nearest parent that was written."""
        self.problems.append(self._problem(path, message))

    def warn(self, path: Path, message: str) -> None:
        """Note what the log says at the start about the element at path."""
        self.warnings.append(str(self._problem(path, message)))

    def _problem(self, path: Path, message: str) -> Problem:
        place = next(
            (self.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.places),
            NOWHERE,
        )
        return Problem(None if place == NOWHERE else place, path_text(path), message)

    def is_written(self, path: Path) -> bool:
        """Tell whether the document has this element, whatever it says."""
        return path in self.places

    def children(self, path: Path) -> Iterator[str | int]:
        """Yield the names, or the indexes, right below path."""
        size = len(path)
        for other in self.places:
            if len(other) == size + 1 and other[:size] == path:
                yield other[size]

    def find(self, path: Path) -> Value | None:
        """Return what the document says at path, None when it says nothing."""
        return self.values.get(path)

    def value(self, path: Path) -> Value | None:
        """Return what the document says at path, else the default of the table."""
        if path in self.values:
            return self.values[path]
        shape = self.shape.find(path)
        if shape is None or shape.setting is None:
            raise LookupError(f"no setting {path_text(path)}")
        return shape.setting.default

    def flag(self, path: Path) -> bool:
        """Return a boolean; one without a default is off."""
        return bool(self.value(path))

    def number(self, path: Path) -> int:
        """Return an integer; one without a default is 0."""
        return int(self.value(path) or 0)

    def text(self, path: Path) -> str | None:
        """Return a text, None when neither the document nor the table has one."""
        value = self.value(path)
        return None if value is None else str(value)
