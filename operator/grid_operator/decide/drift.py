"""Tells what of a rendered object is not so in the live one.

Only rendered fields count: what the API server defaults and what others own is not the
operator's business, and is not in the rendered object.
"""

from __future__ import annotations

from typing import Any, Final

from grid_operator.api.names import RENDERED_HASH_ANNOTATION
from grid_operator.api.quantity import parse_quantity

_QUANTITY_PARENTS: Final = frozenset({"requests", "limits"})
_QUANTITY_FIELDS: Final = frozenset({"sizeLimit", "storage"})
_KEY_FIELDS: Final = ("name", "uid")
"""What tells list items apart. All keyed lists that are rendered have one of them."""


def is_unchanged(rendered: dict[str, Any], live: dict[str, Any]) -> bool:
    """Return whether applying the rendered object would change nothing of the operator's.

    The digest tells that a field left the rendering (it is not in it, so it cannot be compared);
    the comparison tells that somebody edited a field that is still in it.
    """
    return not differences(rendered, live)


def is_hand_edited(rendered: dict[str, Any], live: dict[str, Any]) -> bool:
    """Return whether somebody else changed what this very rendering had set."""
    return _hash(rendered) == _hash(live) and bool(differences(rendered, live))


def differences(rendered: Any, live: Any, path: str = "") -> list[str]:
    """Return the paths of rendered values that the live object does not have."""
    if _is_empty(rendered) and _is_empty(live):
        return []
    if isinstance(rendered, dict) and isinstance(live, dict):
        return _field_differences(rendered, live, path)
    if isinstance(rendered, list) and isinstance(live, list):
        return _item_differences(rendered, live, path)
    same = rendered == live and isinstance(rendered, bool) == isinstance(live, bool)
    return [] if same or _same_quantity(rendered, live, path) else [path]


def _field_differences(rendered: dict[str, Any], live: dict[str, Any], path: str) -> list[str]:
    return [
        found
        for key, value in rendered.items()
        for found in differences(value, live.get(key), f"{path}.{key}" if path else str(key))
    ]


def _item_differences(rendered: list[Any], live: list[Any], path: str) -> list[str]:
    key = _key_field(rendered)
    if key is None:
        if len(rendered) != len(live):
            return [path]
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(rendered, live, strict=True))]
    else:
        by_key = {item.get(key): item for item in live if isinstance(item, dict)}
        pairs = [(item[key], item, by_key.get(item[key])) for item in rendered]
    return [found for name, a, b in pairs for found in differences(a, b, f"{path}[{name}]")]


def _key_field(items: list[Any]) -> str | None:
    for key in _KEY_FIELDS:
        if items and all(isinstance(item, dict) and key in item for item in items):
            return key
    return None


def _same_quantity(rendered: Any, live: Any, path: str) -> bool:
    *_, parent, field = ("", "", *path.split("."))
    if parent not in _QUANTITY_PARENTS and field not in _QUANTITY_FIELDS:
        return False
    amount = parse_quantity(str(rendered))
    return amount is not None and amount == parse_quantity(str(live))


def _is_empty(value: Any) -> bool:
    # The API server leaves empty strings, lists and most empty objects out of what it stores.
    return value is None or value in ("", [], {})


def _hash(obj: dict[str, Any]) -> object:
    return obj["metadata"].get("annotations", {}).get(RENDERED_HASH_ANNOTATION)
