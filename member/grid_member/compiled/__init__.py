"""Compiled modules: what every request runs through as machine code, where it was built.

    use(wanted)                          before anything else of the package is loaded
    python -m grid_member.compiled.build  builds them for this Python, from these sources

The sources are what counts. Modules that were built from others, or for another Python, are left
alone, and the sources are interpreted: what a member answers is the same.
"""

from __future__ import annotations

import json
import sys
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE: Final = "GRID_COMPILED"
"""Of the environment: what the process of a member tells `use`; `auto` when it says nothing."""
WANTED: Final = ("auto", "off", "required")
"""What `use` can be told: to use what fits, nothing, or to raise when nothing fits."""
GROUP: Final = "grid__mypyc"
"""The module that holds the code of all others."""
MANIFEST: Final = "manifest.json"
BUILT: Final = Path(__file__).parent / "built"
_PACKAGE: Final = Path(__file__).parents[1]
_NOT_BUILT: Final = (
    "nothing was built: `python -m grid_member.compiled.build` does, with a C compiler and mypy"
)


class NotCompiledError(Exception):
    """Compiled modules are required and not there; the message says what to do."""


class _CompiledFinder:
    """Finds the compiled modules before their sources; an entry of `sys.meta_path`."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return where the module is, None for one that is not compiled."""
        file = self._files.get(name)
        if file is None:
            return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))


def use(wanted: str = "auto", directory: Path = BUILT) -> str | None:
    """Load compiled modules from now on, instead of the sources of the same names.

    Once they are used they are, whatever is wanted then.

    Args:
        wanted: one of `WANTED`.
        directory: where they were built.

    Returns:
        Why the sources are interpreted; None when they are not.

    Raises:
        NotCompiledError: none fit and they are required, or `wanted` is another word.
    """
    if wanted not in WANTED:
        raise NotCompiledError(f"{wanted!r} is none of {', '.join(WANTED)}")
    if GROUP in sys.modules:
        return None
    reason = "it is switched off" if wanted == "off" else _use(directory)
    if wanted == "required" and reason is not None:
        raise NotCompiledError(f"compiled modules are required, and {reason}")
    return reason


def misfit(directory: Path = BUILT) -> str | None:
    """Return why the compiled modules there cannot be used, None when they can."""
    manifest = _manifest(directory)
    if manifest is None:
        return _NOT_BUILT
    if manifest.get("suffix") != EXTENSION_SUFFIXES[0]:
        return f"what was built is for {manifest.get('suffix')}, not {EXTENSION_SUFFIXES[0]}"
    try:
        fits = manifest.get("sources") == sources_digest()
    except OSError as error:
        return f"the sources cannot be read: {error}"
    return None if fits else "the sources have changed since they were compiled: build anew"


def sources_digest() -> str:
    """Return what tells these sources of the package from others.

    All of them: constants of modules that are not compiled are part of those that are.
    """
    digest = blake2b(digest_size=20)
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{file.relative_to(_PACKAGE)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _use(directory: Path) -> str | None:
    reason = misfit(directory)
    if reason is not None:
        return reason
    suffix = EXTENSION_SUFFIXES[0]
    files = {
        ".".join(file.relative_to(directory).parts).removesuffix(suffix): file
        for file in directory.rglob(f"*{suffix}")
    }
    loaded = sorted(files.keys() & sys.modules.keys())
    if loaded:
        return f"{loaded[0]} is loaded already"  # and its classes are others
    finder = _CompiledFinder(files)
    sys.meta_path.insert(0, finder)
    try:
        __import__(GROUP)
    except ImportError as error:
        sys.meta_path.remove(finder)
        return f"what was built cannot be loaded: {error}"
    return None


def _manifest(directory: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((directory / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
