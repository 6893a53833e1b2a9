"""The table of fields and their tests is complete, and every test in it is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api import names
from grid_operator.api.conditions import ConditionType
from grid_operator.decide.annotation_requests import OPTIONS
from tests.unit.operator.api.field_tests import SPEC
from tests.unit.operator.api.field_tests_status import CONDITIONS, METADATA, STATUS_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.operator.api.field_tests import Table

ROOT = Path(__file__).parents[4]
TABLES: tuple[Table, ...] = (SPEC, STATUS_FIELDS, CONDITIONS, METADATA)
ROWS = [(row, tests) for table in TABLES for row, tests in table.items()]


def leaves(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of what holds no further fields; a map by key is one value."""
    if "items" in schema:
        yield from leaves(schema["items"], f"{path}[]")
    elif "properties" in schema:
        for name, child in schema["properties"].items():
            yield from leaves(child, f"{path}.{name}")
    else:
        yield path


def of_the_schema(part: str) -> set[str]:
    text = (ROOT / "crds" / "gridcluster.yaml").read_text(encoding="utf-8")
    (version,) = yaml.safe_load(text)["spec"]["versions"]
    found = version["schema"]["openAPIV3Schema"]["properties"][part]
    return set(leaves(found, part))


def of_the_metadata() -> set[str]:
    """Return the annotations, labels and finalizers of the API group."""
    own = {
        value
        for name, value in vars(names).items()
        if name.endswith(("_ANNOTATION", "_LABEL", "_FINALIZER"))
        and isinstance(value, str)
        and value.startswith(f"{names.GROUP}/")
    }
    return own | {f"{names.GROUP}/{name}" for name in OPTIONS}


@cache
def functions(file: str) -> frozenset[str]:
    """Return the names of the tests that pytest collects from a file."""
    path = ROOT / file
    if not path.name.startswith("test_") or not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        (SPEC, of_the_schema("spec")),
        (STATUS_FIELDS, of_the_schema("status")),
        (CONDITIONS, {kind.value for kind in ConditionType}),
        (METADATA, of_the_metadata()),
    ],
    ids=["spec", "status", "conditions", "metadata"],
)
def test_everything_has_a_row_and_no_row_is_of_nothing(table: Table, wanted: set[str]) -> None:
    assert sorted(wanted - table.keys()) == []
    assert sorted(table.keys() - wanted) == []


@pytest.mark.parametrize(("row", "tests"), ROWS, ids=[row for row, _ in ROWS])
def test_every_test_of_a_row_is_there(row: str, tests: tuple[str, ...]) -> None:
    assert tests, row
    assert len(set(tests)) == len(tests)
    for test in tests:
        file, _, name = test.partition("::")
        assert name.startswith("test_"), test
        assert name in functions(file), test


def test_what_is_missing_is_found() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"items": {"properties": {"b": {}, "c": {"items": {}}}}}}
    }

    assert list(leaves(schema, "spec")) == ["spec.a[].b", "spec.a[].c[]"]
    assert "test_what_is_missing_is_found" in functions(
        "tests/unit/operator/api/test_field_tests.py"
    )
    assert functions("tests/unit/operator/api/clusters.py") == frozenset()
    assert functions("tests/unit/operator/api/test_nowhere.py") == frozenset()
