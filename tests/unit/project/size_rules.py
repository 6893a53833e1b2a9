"""The rules of size: what is measured, of what, and how much there may be.

They hold apart what one reader has to hold in mind at once. A file is as long as one idea is; a
class counts with all that it inherits, as cutting it into base classes makes it no smaller.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import PurePath

    from tests.unit.project.sources import Module, Sources

    Figures = Mapping[str, int]

MAX_FILES_IN_FOLDER: Final = 20
MAX_FILE_LINES: Final = 600
SHAPES: Final = frozenset({"typing.Protocol", "typing.TypedDict"})
"""Classes that come from these say what others have; such a base has no code to be merged."""
FIELDS_OF_OTHERS: Final = frozenset({"pydantic.BaseModel"})
"""Classes that come from these have a field for each field of the API, however many those are."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is measured of the sources, by name, and how much there may be."""

    measured: Callable[[Sources], Figures]
    at_most: int
    advice: str


def files_by_folder(files: Iterable[PurePath]) -> Figures:
    """Count the Python files that stand in each folder itself."""
    return Counter(str(file.parent) for file in files)


def _class_lines(sources: Sources) -> Figures:
    return {
        name: sum(one.lines for one in sources.with_bases(name).values())
        for name in sources.classes
    }


def _class_attributes(sources: Sources) -> Figures:
    return {
        name: len({each for one in sources.with_bases(name).values() for each in one.attributes})
        for name in sources.classes
        if not _has_given_names(sources.foreign_bases(name))
    }


def _has_given_names(foreign: frozenset[str]) -> bool:
    return bool(foreign & FIELDS_OF_OTHERS) or any(name.startswith("enum.") for name in foreign)


def _lone_bases(sources: Sources) -> Figures:
    """Count one for each class that has one subclass only.

    Such a base is a part of its subclass in another place, or hides that the subclass should have
    one of it. Protocols and typed dictionaries are shapes. An error is a base because callers
    catch it: how many errors there are of a kind does not matter to them.
    """
    children = Counter(base for one in sources.classes.values() for base in one.bases)
    return {
        name: 1
        for name in sources.classes
        if children[name] == 1
        and not sources.foreign_bases(name) & SHAPES
        and not any(_is_error(base) for base in sources.foreign_bases(name))
    }


def _is_error(name: str) -> bool:
    known = getattr(builtins, name, None)
    if isinstance(known, type):
        return issubclass(known, BaseException)
    return name.endswith(("Error", "Exception"))


def _private_names(sources: Sources) -> Figures:
    return {name: _private_in(sources, module) for name, module in sources.modules.items()}


def _private_in(sources: Sources, module: Module) -> int:
    found = 0
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            found += sum(_is_private(alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            place = module.imported.get(node.value.id)
            found += place in sources.modules and _is_private(node.attr)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _fan_out(sources: Sources) -> Figures:
    return {name: len(sources.imports(module)) for name, module in sources.modules.items()}


CLASS_LINES: Final = Rule(_class_lines, 500, "let it have a part of it in place of being it")
CLASS_ATTRIBUTES: Final = Rule(_class_attributes, 25, "give those that belong together a class")
LONE_BASES: Final = Rule(_lone_bases, 0, "merge it with its only subclass, or hold one of it")
PRIVATE_NAMES: Final = Rule(_private_names, 0, "give what others use a public name")
FAN_OUT: Final = Rule(_fan_out, 20, "move what needs some of the modules to a module of its own")


def violations(
    figures: Figures, at_most: int, exceptions: Figures, advice: str = ""
) -> dict[str, str]:
    """Return what is wrong by name: too much, or an exception that allows more than there is."""
    found: dict[str, str] = {}
    for name in sorted({*figures, *exceptions}):
        figure, allowed = figures.get(name, 0), exceptions.get(name, at_most)
        if figure > allowed:
            found[name] = f"has {figure}, may have {allowed}: {advice}"
        elif figure <= at_most and name in exceptions:
            found[name] = f"has {figure}: take it off the exceptions"
        elif figure < allowed and name in exceptions:
            found[name] = f"has {figure}: lower its exception from {allowed}"
    return found
