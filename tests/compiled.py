"""Runs the tests of a process with compiled modules: `pytest -p tests.compiled …`.

Tests that patch something, or have something stand in for it, are left out: what is compiled does
not change, looks at the types of what it is called with, and is nobody's base class.
"""

from __future__ import annotations

import inspect

import pytest

from grid_member.compiled import use

OWN_ENGINES = ("stream", "forwarded", "part", "three")
"""Benches whose engines inherit from those of several members."""

use("required")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out those tests."""
    left_out = [item for item in items if _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    bench = item.callspec.params.get("bench") if hasattr(item, "callspec") else None
    if isinstance(bench, str) and bench.startswith(OWN_ENGINES):
        return True
    return _patches(item) or item.get_closest_marker("interpreted") is not None


def _patches(item: pytest.Function) -> bool:
    """Tell whether the test patches, or a fixture of its module; those of all may, elsewhere."""
    asked = set(inspect.signature(item.function).parameters)
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        if definitions[-1].func.__module__ == item.function.__module__:
            asked.update(definitions[-1].argnames)
    return "monkeypatch" in asked
