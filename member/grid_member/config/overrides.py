"""Environment overrides: GRID_MEMBER_NETWORK_RESTAPI_ENABLED=true wins over the document.

After GRID_MEMBER_ a variable names the path to a setting, a word for each element, without dashes
and in any case; items of a list are counted from 0. A name that the document chooses, such as that
of a map, may have several words: the names in the document are tried first, without their dashes
and underscores, else the words in lower case, joined by underscores, are the name.

Variables of other programs begin with GRID_, too, and Kubernetes sets some for a Service. What
leads to no setting stops no member: the log names it once, unless the document uses it as `${…}`.
The former names, which lack MEMBER_, are read in this version for the last time (ADR 0047).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeGuard

from grid_member.config.model.member import FORMER_GROUPS, EndpointGroup
from grid_member.config.settings.shape import ANY, EACH, Path, Shape, path_text, settings_shape
from grid_member.config.tree import (
    ConfigError,
    Items,
    Node,
    Problem,
    Scalar,
    Section,
    SourcePosition,
)
from grid_member.config.validate import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX: Final = "GRID_MEMBER_"
FORMER_PREFIX: Final = "GRID_"
MAX_NAMED: Final = 20
"""Variables that one line of the log names."""
NEAR: Final = 0.85
"""How alike a word and a top element are for a slip of the pen (0 to 1, as difflib has it)."""
MAX_INDEX_DIGITS: Final = 4
_VARIABLE: Final = re.compile(rf"{FORMER_PREFIX}[A-Za-z0-9_.-]+")
_SERVICE_LINK: Final = re.compile(
    r".+_SERVICE_HOST|.+_SERVICE_PORT(_.*)?|.+_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_SERVICE_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://.*")
_GROUPS: Final = "endpoint-groups"


@dataclass(frozen=True, slots=True)
class OverrideResult:
    """A document with the settings that the environment overrides."""

    root: Node
    notes: tuple[str, ...] = ()
    """What the log is to say of variables that are former names, or no setting."""
    former: Mapping[str, str] = field(default_factory=dict)
    """The present names of variables that were read under their former ones."""


def apply_overrides(root: Node, environment: Mapping[str, str]) -> OverrideResult:
    """Return the document with the settings that the environment overrides.

    Their values are taken as they are: a `${…}` in them is not replaced.

    Raises:
        ConfigError: a variable leads to several settings, or to what is refused, two lead to the
            same setting, or one to an item of a list that lacks those before it.
    """
    finder = _OverrideFinder(root, frozenset(name for name, _ in variables_used(root)))
    found: dict[Path, str] = {}
    former: dict[str, str] = {}
    names = [
        name
        for name in environment
        if _VARIABLE.fullmatch(name) and not _is_service_link(name, environment[name])
    ]
    for name in sorted(names, key=lambda name: (not name.startswith(PREFIX), name)):
        is_former = not name.startswith(PREFIX)
        path = finder.path(name, is_former)
        if path is None:
            continue
        other = found.setdefault(path, name)
        if is_former and other == name:
            former[name] = _present_name(name)
        elif is_former and other not in former:
            finder.ignored_variables[name] = f"{other} is set"
        elif other != name:
            finder.complain(name, f"sets {path_text(path)}, as {other} does")
    # A list grows in the order of its indexes.
    for path in sorted(found, key=lambda p: [(isinstance(part, str), part) for part in p]):
        root = _set_value(root, path, found[path], finder)
    if finder.problems:
        raise ConfigError(finder.problems)
    return OverrideResult(root, tuple(_notes(finder.ignored_variables, former)), former)


def _present_name(former: str) -> str:
    return PREFIX + former.removeprefix(FORMER_PREFIX)


def _notes(ignored: Mapping[str, str], former: Mapping[str, str]) -> Iterator[str]:
    if former:
        renamed = [f"{new} for {old}" for old, new in former.items()]
        yield (
            "environment variables with former names are read in this version for the last time: "
            f"write {_join_names(renamed)}"
        )
    if ignored:
        told = [f"{name} ({why})" if why else name for name, why in ignored.items()]
        yield f"environment variables that are no setting are ignored: {_join_names(told)}"


def _join_names(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def variables_used(node: Node) -> Iterator[tuple[str, bool]]:
    """Yield the variables that the document uses as `${…}`, and whether there is a default."""
    if isinstance(node, Scalar):
        for match in VARIABLE.finditer(node.text or ""):
            yield match[1], match[2] is not None
        return
    for below in node.children.values() if isinstance(node, Section) else node.items:
        yield from variables_used(below)


@dataclass(frozen=True, slots=True)
class _OverridePath:
    """One way to understand a variable."""

    path: Path
    invented: bool
    """True when the document has not all of the names in it."""
    refused: bool

    def step(self, part: str | int, invented: bool = False) -> _OverridePath:
        return _OverridePath((*self.path, part), self.invented or invented, self.refused)


@dataclass(frozen=True, slots=True)
class _DeadEnd:
    """Where a reading did not go on: at an element that has no such child."""

    path: Path
    word: str
    """Empty when the variable ended there."""
    known_names: tuple[str, ...]


@dataclass(slots=True)
class _OverrideFinder:
    root: Node
    used_variables: frozenset[str]
    shape: Shape = field(default_factory=settings_shape)
    problems: list[Problem] = field(default_factory=list)
    ignored_variables: dict[str, str] = field(default_factory=dict)
    """Variables that are no setting, each with a hint, which may be empty."""

    def complain(self, variable: str, message: str) -> None:
        self.problems.append(Problem(SourcePosition(variable, 0, 0), "", message))

    def path(self, variable: str, is_former: bool) -> Path | None:
        """Return the path of the setting, None for no override; notes what is wrong.

        A former name, without MEMBER_, that is no setting is most likely another program's.
        """
        prefix = FORMER_PREFIX if is_former else PREFIX
        words = tuple(variable.removeprefix(prefix).lower().split("_"))
        readings, ends = self._read(words)
        is_used = variable in self.used_variables
        if len(readings) == 1 and not (readings[0].refused and (is_former or is_used)):
            return readings[0].path
        both = " or ".join(path_text(reading.path) for reading in readings)
        if len(readings) > 1 and not is_former:
            self.complain(variable, f"may mean {both}: set it in the file")
        elif len(readings) > 1 and not is_used:
            self.ignored_variables[variable] = f"it may mean {both}"
        elif not readings and not is_used:
            hint = self._hint(words, ends, prefix)
            if hint or not is_former:
                self.ignored_variables[variable] = hint
        return None

    def _read(self, words: tuple[str, ...]) -> tuple[list[_OverridePath], list[_DeadEnd]]:
        ends: list[_DeadEnd] = []
        start = _OverridePath((), invented=False, refused=False)
        readings = list(_paths_of(self.shape, self.root, words, start, ends))
        return [r for r in readings if not r.invented] or readings, ends

    def _hint(self, words: tuple[str, ...], ends: list[_DeadEnd], prefix: str) -> str:
        """Return what may be meant by words that lead to no setting; empty: nothing like it."""
        end = max(ends, key=lambda end: len(end.path))
        if not end.path:
            near = self._near_top(words)
            return "" if near is None else f"perhaps {prefix}{near}... is meant"
        if end.word:
            return f"{path_text(end.path)} has no such {_hint(end)}"
        return f"{path_text(end.path)} must hold further elements, no value"

    def _near_top(self, words: tuple[str, ...]) -> str | None:
        tops = {_plain(name): name for name, top in self.shape.below.items() if not top.refusal}
        # GRID_MEMBER_CLUSTER_NAME is meant as GRID_MEMBER_CLUSTERNAME.
        starts = ["".join(words[:size]) for size in range(1, len(words) + 1)]
        for start in starts:
            near = difflib.get_close_matches(start, tops, 1, NEAR)
            if near:
                return near[0].upper()
        return None


def _paths_of(
    shape: Shape,
    node: Node | None,
    words: tuple[str, ...],
    so_far: _OverridePath,
    ends: list[_DeadEnd],
) -> Iterator[_OverridePath]:
    if shape.refusal is not None:
        switch = shape.refusal.switch
        path = (*so_far.path, switch) if words == (_plain(switch),) else so_far.path
        yield _OverridePath(path, so_far.invented, refused=True)
    elif shape.setting is not None and not words:
        yield so_far
    elif shape.setting is not None or not words:
        ends.append(_DeadEnd(so_far.path, words[0] if words else "", ()))
    else:
        steps = list(_steps(shape, node, words, so_far))
        if not steps:
            known = tuple(n for n, below in shape.below.items() if not below.refusal)
            ends.append(_DeadEnd(so_far.path, words[0], known))
        for below, child, rest, reading in steps:
            yield from _paths_of(below, child, rest, reading, ends)


def _steps(
    shape: Shape, node: Node | None, words: tuple[str, ...], so_far: _OverridePath
) -> Iterator[tuple[Shape, Node | None, tuple[str, ...], _OverridePath]]:
    """Yield where the next words can lead: element, its node, the words left, the way there."""
    if shape.items is not None:
        if words[0].isdecimal() and words[0].isascii() and len(words[0]) <= MAX_INDEX_DIGITS:
            index = int(words[0])
            yield shape.items, _child(node, index), words[1:], so_far.step(index)
        return
    for name, below in shape.below.items():
        if name not in (ANY, EACH) and _plain(name) == words[0]:
            yield below, _child(node, name), words[1:], so_far.step(name)
    if shape.any_name is not None:
        for size in range(1, len(words)):
            for name, invented in _names(node, words[:size], so_far.path):
                reading = so_far.step(name, invented)
                yield shape.any_name, _child(node, name), words[size:], reading


def _names(node: Node | None, words: tuple[str, ...], path: Path) -> list[tuple[str, bool]]:
    """Return the names that the words can mean, and whether they are new to the document."""
    joined = "".join(words)
    if not joined:
        return []
    present = node.children if isinstance(node, Section) else ()
    names = [name for name in present if _plain(name) == joined]
    if not names and path[-1] == _GROUPS:
        known = [*(group.value for group in EndpointGroup), *FORMER_GROUPS]
        names = [name for name in known if _plain(name) == joined]
    return [(name, False) for name in names] or [("_".join(words), True)]


def _set_value(node: Node | None, path: Path, variable: str, finder: _OverrideFinder) -> Node:
    place = SourcePosition(variable, 0, 0)
    if not path:
        # Replaced by the variable's value later, as every `${…}` is, and not once more.
        return Scalar(place, f"${{{variable}}}")
    head, rest = path[0], path[1:]
    if _is_value(node) or isinstance(node, Section if isinstance(head, int) else Items):
        # The document is wrong here, and validation says so at its place.
        return node
    child = _set_value(_child(node, head), rest, variable, finder)
    if isinstance(head, int):
        items = node.items if isinstance(node, Items) else ()
        if head > len(items):
            finder.complain(variable, f"the list has {len(items)} items: set index {len(items)}")
            return node or Items(place, ())
        changed = (*items[:head], child, *items[head + 1 :])
        return Items(node.place if isinstance(node, Items) else place, changed)
    if not isinstance(node, Section):
        return Section(place, {head: child}, {head: place})
    named = place if not rest or head not in node.names else node.names[head]
    return Section(node.place, {**node.children, head: child}, {**node.names, head: named})


def _is_value(node: Node | None) -> TypeGuard[Scalar]:
    return isinstance(node, Scalar) and node.text is not None


def _child(node: Node | None, part: str | int) -> Node | None:
    if isinstance(node, Section) and isinstance(part, str):
        return node.children.get(part)
    if isinstance(node, Items) and isinstance(part, int) and part < len(node.items):
        return node.items[part]
    return None


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _hint(end: _DeadEnd) -> str:
    names = {_plain(name): name for name in end.known_names if name not in (ANY, EACH)}
    near = difflib.get_close_matches(end.word, names, 1)
    if near:
        return f"element, perhaps {names[near[0]]} ({near[0].upper()}) is meant"
    return "item: its items are counted from 0" if EACH in end.known_names else "element"


def _is_service_link(variable: str, value: str) -> bool:
    if variable.endswith("_PORT") and _SERVICE_LINK_VALUE.fullmatch(value):
        return True
    return _SERVICE_LINK.fullmatch(variable) is not None
