"""What all API types share: camelCase JSON, strict types, and rules that span fields."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake

QUANTITY_PATTERN: Final = (
    r"^[0-9]+(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$"
)
"""Kubernetes quantities without signs and the sub-milli suffixes, which no resource here needs."""
MAX_QUANTITY_LENGTH: Final = 32
MAX_LABEL_LENGTH: Final = 63
MAX_INT32: Final = 2**31 - 1
ATOMIC_LIST: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}
"""Schema marker of a list that is replaced as a whole."""
PLAIN_JSON: Final[dict[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema marker of an object whose fields Kubernetes' own schema checks where it is used."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that a value must meet, said once for the API server and once for Python.

    The API server evaluates `cel`; `gridctl up`, which has no API server, evaluates `holds`.
    A rule over `oldSelf` has no `holds`: `decide` compares with the live objects instead.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    field: str = ""
    """JSON path of the field that the message is about, such as `.spec.size`; empty: the value."""


class ApiModel(BaseModel):
    """Base of every type in the API: immutable, camelCase in JSON, no implicit conversion."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        strict=True,
        extra="ignore",
    )
    rules: ClassVar[tuple[Rule, ...]] = ()


class SpecModel(ApiModel):
    """Base of the types under `spec`: an unknown field is an error, rules are checked."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        broken = [r.message for r in self.rules if r.holds is not None and not r.holds(self)]
        broken += self._duplicates()
        if broken:
            raise ValueError("; ".join(broken))
        return self

    def _duplicates(self) -> list[str]:
        found: list[str] = []
        for name, info in type(self).model_fields.items():
            extra = info.json_schema_extra
            keys = extra.get("x-kubernetes-list-map-keys") if isinstance(extra, dict) else None
            if not isinstance(keys, list):
                continue
            seen: set[tuple[str, ...]] = set()
            for item in getattr(self, name):
                key = tuple(str(getattr(item, to_snake(str(part)))) for part in keys)
                if key in seen:
                    found.append(f"{info.alias}: duplicate {'/'.join(key)}")
                seen.add(key)
        return found


def list_map(*keys: str) -> dict[str, Any]:
    """Return schema markers of a list whose items are told apart by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def _quantity_text(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


Quantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    Field(pattern=QUANTITY_PATTERN, max_length=MAX_QUANTITY_LENGTH),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
            "maxLength": MAX_QUANTITY_LENGTH,
        }
    ),
]
"""An amount as in container resources: `2`, `500m`, `1Gi`. Held as text."""

LabelValue = Annotated[str, Field(max_length=MAX_LABEL_LENGTH)]
LabelMap = Annotated[dict[str, LabelValue], Field(max_length=64)]

ObjectName = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
]
"""Name of a Kubernetes object in the cluster's namespace."""


def _timestamp(text: str) -> str:
    try:
        zoned = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        zoned = False
    if not zoned:
        raise ValueError("must be a time with its zone, such as 2030-01-31T08:00:00Z")
    return text


Timestamp = Annotated[
    str,
    AfterValidator(_timestamp),
    Field(max_length=64, json_schema_extra={"format": "date-time"}),
]
"""A moment as RFC 3339 writes it. Held as text."""
