"""Packages that only an extra of Grid installs: without it they are missing.

The member does the same, without this module: the two packages know nothing of each other.
"""

from __future__ import annotations

from typing import Final

_OWN: Final = frozenset({"grid_operator", "gridctl"})


def missing_package(error: ModuleNotFoundError, extra: str) -> str | None:
    """Return what to install when a module is not found, None when the module is Grid's own."""
    package = (error.name or "").partition(".")[0]
    if not package or package in _OWN:
        return None
    return (
        f"the package {package} is not installed: install Grid with its extra {extra}, from where "
        f"it was installed, as in: pip install '/path/to/checkout[{extra}]'"
    )
