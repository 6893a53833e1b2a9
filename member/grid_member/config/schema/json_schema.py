"""The JSON Schema of a configuration, from the table of settings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.config.schema.patterns import (
    INTEGER,
    VARIABLE,
    any_case_pattern,
    choice_pattern,
    name_pattern,
    shown,
)
from grid_member.config.settings.setting import Setting, SettingKind
from grid_member.config.settings.shape import Shape, settings_shape
from grid_member.config.tree import TOP
from grid_member.config.validate import MAX_TEXT_CHARACTERS

if TYPE_CHECKING:
    from grid_member.config.settings.refusal import RefusedSetting

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_BOOLEAN: Final = rf"^\s*({any_case_pattern('true')}|{any_case_pattern('false')})\s*$"
_NATIVE: Final[dict[str, Json]] = {"true": True, "false": False}
_NO_ITEMS: Final[Json] = {"type": "array", "maxItems": 0}
_NO_CONTROL: Final = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]*$"


def json_schema() -> str:
    """Return the JSON Schema (draft 2020-12) of configurations in YAML or JSON, as text.

    It knows elements, types and ranges, not what spans several elements.
    """
    schema: dict[str, Json] = {
        "$schema": _DIALECT,
        "$id": "urn:grid:config:1:json",
        "title": "Configuration of a grid member",
        "type": "object",
        "required": [TOP],
        "additionalProperties": False,
        "properties": {TOP: _section(settings_shape())},
        "$defs": {
            "variable": {"type": "string", "pattern": VARIABLE},
            "boolean": {
                "anyOf": [
                    {"type": "boolean"},
                    {"type": "string", "pattern": _BOOLEAN},
                    {"$ref": "#/$defs/variable"},
                ]
            },
            "text": {
                "type": ["string", "number", "boolean"],
                "minLength": 1,
                "maxLength": MAX_TEXT_CHARACTERS,
                "pattern": _NO_CONTROL,
            },
        },
    }
    return json.dumps(schema, indent=2) + "\n"


def _node(shape: Shape) -> dict[str, Json]:
    if shape.setting is not None:
        return _leaf(shape.setting)
    if shape.items is not None:
        return {"type": "array", "items": _node(shape.items)}
    return _section(shape)


def _section(shape: Shape) -> dict[str, Json]:
    if shape.any_name is not None:
        return {
            "type": ["object", "null"],
            "propertyNames": {
                "minLength": 1,
                "maxLength": MAX_TEXT_CHARACTERS,
                "pattern": f"^({name_pattern(shape.path)})$",
            },
            "additionalProperties": _node(shape.any_name),
        }
    known: dict[str, Json] = {}
    for name, below in shape.below.items():
        if below.refusal is None:
            known[name] = _node(below)
        elif forms := _off_forms(below.refusal):
            known[name] = {"description": f"{below.refusal.why}, unless it is off.", "anyOf": forms}
    return {"type": ["object", "null"], "additionalProperties": False, "properties": known}


def _off_forms(refused: RefusedSetting) -> list[Json]:
    """Return the schemas of what says nothing."""
    forms: list[Json] = []
    if refused.switch:
        off: Json = {"enum": [False]}
        text: Json = {"type": "string", "pattern": rf"^\s*{any_case_pattern('false')}\s*$"}
        switch: Json = {"anyOf": [off, text, {"$ref": "#/$defs/variable"}]}
        required: list[Json] = [refused.switch]
        forms.append(
            {"type": "object", "required": required, "properties": {refused.switch: switch}}
        )
    if refused.off:
        pattern = "|".join(any_case_pattern(re.escape(value)) for value in refused.off)
        values: list[Json] = [_NATIVE.get(value, value) for value in refused.off]
        values += [int(value) for value in refused.off if value.isdecimal()]
        any_case: Json = {"type": "string", "pattern": rf"^\s*({pattern})\s*$"}
        forms += [{"enum": values}, any_case, {"$ref": "#/$defs/variable"}]
    if refused.empty:
        forms += [{"type": "null"}, {"type": "object", "maxProperties": 0}, _NO_ITEMS]
    return forms


def _leaf(setting: Setting) -> dict[str, Json]:
    schema: dict[str, Json] = {"description": setting.about}
    if setting.default is not None:
        schema["default"] = setting.default
    return schema | _type(setting)


def _type(setting: Setting) -> dict[str, Json]:
    variable: Json = {"$ref": "#/$defs/variable"}
    if setting.kind is SettingKind.BOOLEAN and setting.refused_values:
        taken = any_case_pattern(shown(setting.default))
        text_of_it: Json = {"type": "string", "pattern": rf"^\s*{taken}\s*$"}
        return {"anyOf": [{"const": setting.default}, text_of_it, variable]}
    if setting.kind is SettingKind.BOOLEAN:
        return {"$ref": "#/$defs/boolean"}
    if setting.kind is SettingKind.INTEGER:
        number: Json = {"type": "integer", "minimum": setting.low, "maximum": setting.high}
        text: Json = {"type": "string", "pattern": rf"^\s*{INTEGER}\s*$"}
        return {"anyOf": [number, text, variable]}
    if setting.choices:
        choices = choice_pattern(setting)
        any_case: Json = {"type": "string", "pattern": rf"^\s*({choices})\s*$"}
        return {"anyOf": [{"enum": list(setting.choices)}, any_case, variable]}
    text_type: Json = {"$ref": "#/$defs/text"}
    if setting.forbidden_text:
        without: Json = {"pattern": f"^[^{setting.forbidden_text}]*$"}
        return {"allOf": [text_type, {"anyOf": [without, variable]}]}
    return {"$ref": "#/$defs/text"}
