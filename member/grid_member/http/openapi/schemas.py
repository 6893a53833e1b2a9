"""JSON Schemas of the documents, made from the types that the member writes them by."""

from __future__ import annotations

import types
import typing
from typing import Final, Literal, TypeAlias

Json: TypeAlias = dict[str, typing.Any]

_PLAIN: Final = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
SCHEMAS: Final = "#/components/schemas/"


class Schemas:
    """Collects the schemas that a description refers to, each once and by its name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Json] = {}

    @property
    def by_name(self) -> Json:
        """The schemas by name, in the order of the alphabet."""
        return dict(sorted(self._by_name.items()))

    def schema(self, kind: object) -> Json:
        """Return the schema of a type: a JSON type, a Literal, a list, a union or a TypedDict.

        Raises:
            TypeError: JSON has no such type.
        """
        if typing.is_typeddict(kind):
            return self._document(kind)
        plain = _PLAIN.get(kind)  # type: ignore[call-overload]
        if plain is not None:
            return {"type": plain}
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return {"type": "array", "items": self.schema(arguments[0])}
        if origin in (types.UnionType, typing.Union):
            return {"anyOf": [self.schema(each) for each in arguments]}
        if kind is object:
            return {}
        raise TypeError(f"JSON has no {kind}")

    def _document(self, kind: object) -> Json:
        # A TypedDict is a class for the program and not for its types.
        name = str(getattr(kind, "__name__", ""))
        if name not in self._by_name:
            self._by_name[name] = {}  # one that contains itself ends here
            hints = typing.get_type_hints(kind)
            self._by_name[name] = {
                "description": kind.__doc__ or "",
                "type": "object",
                "properties": {field: self.schema(hint) for field, hint in hints.items()},
                "required": list(hints),
                "additionalProperties": False,
            }
        return {"$ref": SCHEMAS + name}
