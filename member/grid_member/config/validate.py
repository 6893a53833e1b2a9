"""One walk over the neutral nodes that checks them against the table of settings."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.config.settings import REFUSED, SETTINGS, Kind, RefusedSetting, Setting, Value
from grid_member.config.tree import Items, Node, Place, Problem, Scalar, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path: TypeAlias = tuple[str | int, ...]

MAX_TEXT_CHARACTERS: Final = 4096
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_VARIABLE: Final = re.compile(r"\$\{([^}:]*)(?::([^}]*))?\}")
_ANY: Final = "*"
_EACH: Final = "[]"


@dataclass(slots=True)
class Values:
    """What a document says: values by path, and the place of every element."""

    values: dict[Path, Value] = field(default_factory=dict)
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def complain(self, path: Path, message: str) -> None:
        """Note a problem at the place of path or of its nearest parent that was written."""
        place = next(
            (self.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.places),
            None,
        )
        self.problems.append(Problem(place, path_text(path), message))

    def children(self, path: Path) -> Iterator[str | int]:
        """Yield the names, or the indexes, right below path."""
        size = len(path)
        for other in self.places:
            if len(other) == size + 1 and other[:size] == path:
                yield other[size]


@dataclass(slots=True)
class _Shape:
    """One level of the table of settings."""

    below: dict[str, _Shape] = field(default_factory=dict)
    setting: Setting | None = None
    refused: RefusedSetting | None = None

    def at(self, path: str) -> _Shape:
        shape = self
        for part in path.split("."):
            shape = shape.below.setdefault(part, _Shape())
        return shape


def path_text(path: Path) -> str:
    """Return a path as it is shown to people: `security.realms[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def settings_shape() -> _Shape:
    """Return the table of settings as a tree."""
    root = _Shape()
    for setting in SETTINGS:
        root.at(setting.path).setting = setting
    for refused in REFUSED:
        root.at(refused.path).refused = refused
    return root


def collect(root: Node, environment: Mapping[str, str]) -> Values:
    """Return what the document says, with everything that is wrong with it."""
    found = Values()
    _Walk(found, environment).visit(root, settings_shape(), ())
    return found


@dataclass(slots=True)
class _Walk:
    found: Values
    environment: Mapping[str, str]

    def visit(self, node: Node, shape: _Shape, path: Path) -> None:
        self.found.places.setdefault(path, node.place)
        if shape.refused is not None:
            self.found.complain(path, shape.refused.why)
        elif shape.setting is not None:
            self._leaf(node, shape.setting, path)
        elif _EACH in shape.below:
            self._items(node, shape.below[_EACH], path)
        else:
            self._section(node, shape, path)

    def _items(self, node: Node, shape: _Shape, path: Path) -> None:
        if not isinstance(node, Items):
            self.found.complain(path, "must be a list")
            return
        for index, item in enumerate(node.items):
            self.visit(item, shape, (*path, index))

    def _section(self, node: Node, shape: _Shape, path: Path) -> None:
        if isinstance(node, Scalar) and node.text is None:
            return
        if not isinstance(node, Section):
            self.found.complain(path, "must hold further elements, not a value")
            return
        for name, child in node.children.items():
            below = (*path, name)
            self.found.places[below] = node.names[name]
            known = shape.below.get(name) or shape.below.get(_ANY)
            if known is None:
                self._unknown(name, shape, below)
            else:
                self.visit(child, known, below)

    def _unknown(self, name: str, shape: _Shape, path: Path) -> None:
        known = [other for other, below in shape.below.items() if below.refused is None]
        near = difflib.get_close_matches(name, known, 1)
        hint = f", perhaps {near[0]} is meant" if near else f"; known are {', '.join(known)}"
        self.found.complain(path, f"unknown element{hint}")

    def _leaf(self, node: Node, setting: Setting, path: Path) -> None:
        if not isinstance(node, Scalar):
            self.found.complain(path, f"must be one value ({setting.kind.value})")
            return
        text = self._resolved("" if node.text is None else node.text, path)
        if text is None:
            return
        value = _converted(text, setting)
        if isinstance(value, _Wrong):
            self.found.complain(path, value.message)
        else:
            self.found.values[path] = value

    def _resolved(self, text: str, path: Path) -> str | None:
        missing: list[str] = []

        def replaced(match: re.Match[str]) -> str:
            default: str | None = match[2]
            value = self.environment.get(match[1], default)
            if value is None:
                missing.append(match[1])
            return value or ""

        resolved = _VARIABLE.sub(replaced, text)
        for name in missing:
            self.found.complain(path, f"the environment variable {name} is not set")
        return None if missing else resolved


@dataclass(frozen=True, slots=True)
class _Wrong:
    message: str


def _converted(text: str, setting: Setting) -> Value | _Wrong:
    # Messages never repeat the text: it may be a password that landed in the wrong place.
    if setting.kind is Kind.BOOLEAN:
        flag = {"true": True, "false": False}.get(text.strip().lower())
        return _Wrong("must be true or false") if flag is None else flag
    if setting.kind is Kind.INTEGER:
        if not _INTEGER.fullmatch(text.strip()):
            return _Wrong("must be an integer")
        number = int(text)
        if setting.low <= number <= setting.high:
            return number
        return _Wrong(f"must be from {setting.low} to {setting.high}")
    return _converted_text(text, setting)


def _converted_text(text: str, setting: Setting) -> Value | _Wrong:
    if setting.choices:
        chosen = next((c for c in setting.choices if c == text.lower()), None)
        return chosen or _Wrong(f"must be one of {', '.join(setting.choices)}")
    if not text:
        return _Wrong("must not be empty")
    if len(text) > MAX_TEXT_CHARACTERS:
        return _Wrong(f"must have at most {MAX_TEXT_CHARACTERS} characters")
    return text
