"""The values of the chart `grid`: its own, and the fields of a GridCluster's spec."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

import yaml

from grid_operator.api.crd import cluster_schema
from grid_operator.api.names import VERSION

Schema = dict[str, Any]

GRID_CLUSTER_MODE: Final = "GridCluster"
STATEFUL_SET_MODE: Final = "StatefulSet"
SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
LINE_WIDTH: Final = 100

_TEXT: Final[Schema] = {"type": "string"}
_LABELS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "type": "string",
        "maxLength": 63,
        "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    },
}
_IMAGE_PARTS: Final[Schema] = {
    "registry": {"type": "string", "pattern": r"^\S*$"},
    "repository": {"type": "string", "pattern": r"^\S+$"},
    "tag": {"type": "string", "pattern": "^([A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?$"},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
}
_OWN: Final[dict[str, Schema]] = {
    "mode": {
        "description": "How the members are run. GridCluster: as one GridCluster, by an operator.",
        "enum": ["", GRID_CLUSTER_MODE, STATEFUL_SET_MODE],
        "default": "",
    },
    "nameOverride": {
        "description": "Name of the GridCluster, in place of the release's.",
        "type": "string",
        "default": "",
    },
    "global": {
        "description": "Shared with other charts of one release.",
        "type": "object",
        "properties": {"imageRegistry": _TEXT},
        "default": {"imageRegistry": ""},
    },
    "image": {
        "description": "Container image of the members: its parts, or one string that is taken as "
        "it is. registry may hold a path; global.imageRegistry takes its place. tag: the chart's "
        "appVersion when empty. digest, as sha256:..., takes the place of the tag.",
        "oneOf": [
            {"type": "string", "maxLength": 512, "pattern": r"^\S+$"},
            {"type": "object", "properties": _IMAGE_PARTS, "additionalProperties": False},
        ],
        "default": {"registry": "", "repository": "grid-member", "tag": "", "digest": ""},
    },
    "commonLabels": {"description": "Labels of the GridCluster.", **_LABELS, "default": {}},
    "commonAnnotations": {
        "description": "Annotations of the GridCluster.",
        "type": "object",
        "additionalProperties": _TEXT,
        "default": {},
    },
}
"""What only the chart has, in the order of its values; `image` is a string in the spec."""
_HEAD: Final = f"""\
# Values of the chart grid, written by `make crds` from the API types. Those from `size` on are the
# fields of a GridCluster's spec ({VERSION}). Each one is checked against values.schema.json: a name
# that the chart does not know is an error. A value in a comment is not set.
"""


def values_schema() -> Schema:
    """Return the JSON Schema of the values."""
    properties = {name: value for name, value in _OWN.items() if name != "image"}
    for name, field in _spec_schema()["properties"].items():
        properties[name] = _OWN["image"] if name == "image" else json_schema(field)
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "Values of the chart grid",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def json_schema(field: Schema) -> Schema:
    """Return a structural schema as JSON Schema, in which an unknown field is an error."""
    open_to_all = "x-kubernetes-preserve-unknown-fields" in field
    out = {key: value for key, value in field.items() if not key.startswith("x-kubernetes-")}
    if "properties" in field:
        out["properties"] = {k: json_schema(v) for k, v in field["properties"].items()}
        out["additionalProperties"] = open_to_all
    elif isinstance(field.get("additionalProperties"), dict):
        out["additionalProperties"] = json_schema(field["additionalProperties"])
    if "items" in field:
        out["items"] = json_schema(field["items"])
    return out


def values_text() -> str:
    """Return `values.yaml`: every default, with what it means."""
    spec = _spec_schema()
    lines = [*_HEAD.splitlines(), ""]
    for name, value in _OWN.items():
        lines += [*_field_lines(name, value, value["default"], ""), ""]
    for name, field in spec["properties"].items():
        if name not in _OWN:
            lines += [*_field_lines(name, field, spec["default"].get(name), ""), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def schema_text() -> str:
    """Return `values.schema.json`."""
    return json.dumps(values_schema(), indent=2, ensure_ascii=False) + "\n"


def _spec_schema() -> Schema:
    spec: Schema = cluster_schema()["properties"]["spec"]
    return spec


def _field_lines(name: str, field: Schema, default: Any, indent: str) -> list[str]:
    """Return a value with its comment; one that is not set as a comment."""
    comment = f"{indent}# "
    text = field.get("description", "")
    lines = textwrap.wrap(
        text, LINE_WIDTH, initial_indent=comment, subsequent_indent=comment, break_on_hyphens=False
    )
    if default is None:
        return [*lines, f"{comment}{name}:"]
    fields = field.get("properties", {})
    if not fields:
        return [*lines, f"{indent}{name}: {_inline(default)}"]
    if not default:
        lines.append(f"{indent}{name}: {{}}")
        deeper = f"{comment}  "
        return [*lines, *(f"{deeper}{key}:" for key in fields)]
    lines.append(f"{indent}{name}:")
    for key, value in fields.items():
        lines += _field_lines(key, value, default.get(key), f"{indent}  ")
    return lines


def _inline(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)
    return text.removesuffix("\n").removesuffix("\n...").replace("''", '""')
