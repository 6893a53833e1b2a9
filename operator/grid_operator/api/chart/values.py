"""The values of the chart `grid`: its own, and the fields of a GridCluster's spec."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any, Final

import yaml

from grid_operator.api.chart.own_values import CERT_MANAGER, CONDITION, OWN_VALUES
from grid_operator.api.crd import cluster_schema
from grid_operator.api.names import VERSION

Schema = dict[str, Any]

SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
LINE_WIDTH: Final = 100
_CODE_POINT: Final = re.compile(r"\\u([0-9a-f]{4})")

_HEAD: Final = f"""\
# Values of the chart grid, written by `make crds` from the API types. Those from `size` on are the
# fields of a GridCluster's spec ({VERSION}). Each one is checked against values.schema.json: a name
# that the chart does not know is an error. A value in a comment is not set.
"""


def values_schema(member: Schema) -> Schema:
    """Return the JSON Schema of the values.

    Args:
        member: The JSON Schema of the members' configuration, whose `grid` is the value `config`.
    """
    properties = {name: value for name, value in OWN_VALUES.items() if name != "image"}
    for name, field in _spec_schema()["properties"].items():
        properties[name] = OWN_VALUES["image"] if name == "image" else _or_null(json_schema(field))
    properties["tls"]["properties"]["certManager"] = _or_null(CERT_MANAGER)
    properties["enabled"] = CONDITION
    own_language = _without_words(member["properties"]["grid"])
    properties["config"] = {**OWN_VALUES["config"], **own_language, "type": "object"}
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    defaults = _spec_schema()["default"] | {n: v["default"] for n, v in OWN_VALUES.items()}
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "Values of the chart grid",
        **_with_required(schema, defaults),
        "$defs": _without_words(member["$defs"]),
    }


def _with_required(schema: Schema, defaults: dict[str, Any]) -> Schema:
    """Return the schema of an object whose fields templates read as they are.

    Helm takes a default away for which somebody gives null. Lists, maps of any keys and what is
    empty by default may be missing, the rest may not.
    """
    properties = dict(schema["properties"])
    required = []
    for name, default in defaults.items():
        if not isinstance(default, bool | int) and not default:
            continue
        if name == "image" or not isinstance(default, dict | list):
            required.append(name)
        elif isinstance(default, dict) and "properties" in properties[name]:
            properties[name] = _with_required(properties[name], default)
            required.append(name)
    return {**schema, "properties": properties, **({"required": required} if required else {})}


def json_schema(field: Schema) -> Schema:
    """Return a structural schema as JSON Schema, in which an unknown field is an error.

    A field without a default may be null, as for the API server: so a values file takes away what
    one before it has set.
    """
    open_to_all = "x-kubernetes-preserve-unknown-fields" in field
    out = {key: value for key, value in field.items() if not key.startswith("x-kubernetes-")}
    if "properties" in field:
        required = field.get("required", ())
        out["properties"] = {
            name: json_schema(value) if name in required else _or_null(json_schema(value))
            for name, value in field["properties"].items()
        }
        out["additionalProperties"] = open_to_all
    elif isinstance(field.get("additionalProperties"), dict):
        out["additionalProperties"] = json_schema(field["additionalProperties"])
    if "items" in field:
        out["items"] = json_schema(field["items"])
    return out


def _or_null(schema: Schema) -> Schema:
    if "default" in schema or not isinstance(schema.get("type"), str):
        return schema
    values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **values}


def _without_words(schema: Any) -> Any:
    """Return the schema without what its manual says of each setting."""
    if isinstance(schema, list):
        return [_without_words(item) for item in schema]
    if isinstance(schema, str):
        # Helm reads patterns as Go does.
        return _CODE_POINT.sub(r"\\x{\1}", schema)
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_words(value)
        for key, value in schema.items()
        # A setting of this name would be an object.
        if key not in ("description", "default") or isinstance(value, dict)
    }


def values_text() -> str:
    """Return `values.yaml`: every default, with what it means."""
    spec = _spec_schema()
    lines = [*_HEAD.splitlines(), ""]
    for name, value in OWN_VALUES.items():
        lines += [*_field_lines(name, value, value["default"], ""), ""]
    for name, field in spec["properties"].items():
        if name not in OWN_VALUES:
            lines += [*_field_lines(name, field, spec["default"].get(name), ""), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def schema_text(member: Schema) -> str:
    """Return `values.schema.json`; takes the JSON Schema of the members' configuration."""
    return json.dumps(values_schema(member), indent=2, ensure_ascii=False) + "\n"


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
