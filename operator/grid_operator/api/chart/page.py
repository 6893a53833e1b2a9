"""The table of the page of the chart `grid`: the values that are no fields of the spec."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.chart.own_values import CERT_MANAGER, OF_BOTH_MODES, OWN_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADING: Final = "\n## Values\n"
_INTRODUCTION: Final = """
The fields of a GridCluster's spec, and these. `management` to `test` need `mode: StatefulSet`.

| Value | Default | Meaning |
|---|---|---|
"""


def with_own_values(page: str) -> str:
    """Return the page with the table as its end.

    Raises:
        ValueError: The page has no heading for it.
    """
    before, heading, _ = page.partition(HEADING)
    if not heading:
        raise ValueError(f"the page has no heading {HEADING.strip()}")
    ordered = [*OF_BOTH_MODES, *(name for name in OWN_VALUES if name not in OF_BOTH_MODES)]
    rows = [row for name in ordered for row in _rows(name, OWN_VALUES[name])]
    rows += _unset_rows("tls.certManager", CERT_MANAGER)
    return f"{before}{heading}{_INTRODUCTION}{''.join(rows)}"


def _rows(name: str, field: dict[str, Any]) -> Iterator[str]:
    default = field["default"]
    fields = field.get("properties", {})
    if not any("default" in value for value in fields.values()):
        yield f"| `{name}` | `{json.dumps(default)}` | {field['description']} |\n"
        return
    yield f"| `{name}` | | {field['description']} |\n"
    for key, value in fields.items():
        yield from _rows(f"{name}.{key}", value)


def _unset_rows(name: str, field: dict[str, Any]) -> Iterator[str]:
    yield f"| `{name}` | none | {field['description']} |\n"
    for key, value in field["properties"].items():
        yield f"| `{name}.{key}` | required with it | {value['description']} |\n"
