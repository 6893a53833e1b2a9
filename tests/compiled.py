"""Runs the tests of a process with compiled modules: `pytest -p tests.compiled …`.

Tests that patch something, or have something stand in for it, are left out: what is compiled does
not change, and looks at the types of what it is called with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.compiled import use

if TYPE_CHECKING:
    import pytest

use("required")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out those tests."""
    left_out = [item for item in items if _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    patches = "monkeypatch" in getattr(item, "fixturenames", ())
    return patches or item.get_closest_marker("interpreted") is not None
