"""The source of the project, read as modules, classes and what they name of each other."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Module:
    """A module, and what each name that it imports stands for."""

    name: str
    tree: ast.Module
    imported: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Class:
    """A class and the full names of its direct base classes."""

    name: str
    node: ast.ClassDef
    bases: tuple[str, ...]

    @property
    def lines(self) -> int:
        """How many lines it has, without its decorators."""
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1

    @property
    def attributes(self) -> frozenset[str]:
        """The names that its body declares, its slots name and its methods assign on `self`."""
        return frozenset((*_declared(self.node.body), *_assigned(self.node)))


class Sources:
    """Modules by their names, and the classes in them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Read the modules from their texts."""
        trees = {name: ast.parse(text) for name, text in texts.items()}
        self.modules = {name: Module(name, tree, _imported(tree)) for name, tree in trees.items()}
        nodes = {
            f"{module.name}.{node.name}": (module, node)
            for module in self.modules.values()
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        }
        self._names = nodes.keys()
        self.classes = {
            name: Class(name, node, tuple(self._resolved(module, base) for base in node.bases))
            for name, (module, node) in nodes.items()
        }

    @classmethod
    def below(cls, *places: Path) -> Sources:
        """Read all modules below directories that are no packages themselves."""
        return cls(
            {
                module_name(path.relative_to(place).parts): path.read_text(encoding="utf-8")
                for place in places
                for path in sorted(place.rglob("*.py"))
            }
        )

    def with_bases(self, name: str) -> dict[str, Class]:
        """Return a class of the project and all of its base classes that are in the project."""
        found: dict[str, Class] = {}
        ahead = [name]
        while ahead:
            one = self.classes.get(ahead.pop())
            if one is not None and one.name not in found:
                found[one.name] = one
                ahead += one.bases
        return found

    def foreign_bases(self, name: str) -> frozenset[str]:
        """Return the names of the classes outside the project that a class comes from."""
        every = (base for one in self.with_bases(name).values() for base in one.bases)
        return frozenset(base for base in every if base not in self.classes)

    def imports(self, module: Module) -> frozenset[str]:
        """Return the other modules of the project that a module imports something from."""
        named = {name for name in _imports(module.tree) if name in self.modules}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module in self.modules:
                full = (f"{node.module}.{alias.name}" for alias in node.names)
                if not all(name in self.modules for name in full):
                    named.add(node.module)
        return frozenset(named - {module.name})

    def _resolved(self, module: Module, base: ast.expr) -> str:
        written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, dot, rest = written.partition(".")
        if first not in module.imported:
            return f"{module.name}.{written}" if not hasattr(builtins, first) else written
        return self._origin(module.imported[first] + dot + rest)

    def _origin(self, name: str) -> str:
        """Return the name of a class where it is defined, not where a package shows it."""
        place, _, last = name.rpartition(".")
        module = self.modules.get(place)
        if name in self._names or module is None or last not in module.imported:
            return name
        return self._origin(module.imported[last])


def module_name(parts: tuple[str, ...]) -> str:
    """Return the name of the module in a file."""
    *packages, file = parts
    return ".".join(packages if file == "__init__.py" else [*packages, file.removesuffix(".py")])


def _imports(tree: ast.Module) -> Iterator[str]:
    """Name what is imported: modules and what is in them, as one cannot tell them apart here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return found


def _declared(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == "__slots__":
                yield from _texts(node)
            elif isinstance(target, ast.Name):
                yield target.id


def _texts(node: ast.stmt) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _assigned(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        if not isinstance(part, ast.Attribute) or not isinstance(part.ctx, ast.Store):
            continue
        if isinstance(part.value, ast.Name) and part.value.id == "self":
            yield part.attr
