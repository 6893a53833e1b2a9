"""Tells what of a child is not in the live object as it was rendered.

A value that is missing or another counts, and so does whatever was added that the child may not
have (see `tolerance`): a key more in a selector makes another selector.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import RENDERED_HASH_ANNOTATION, TEMPLATE_HASH_ANNOTATION
from grid_operator.api.quantity import parse_quantity
from grid_operator.decide.tolerance import is_tolerated, key_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_operator.api.objects import KubeObject

_AMOUNTS: Final = (".requests", ".limits")
_SIZE: Final = ".sizeLimit"
_TEMPLATE_DIGEST: Final = f"metadata.annotations.{TEMPLATE_HASH_ANNOTATION}"
TEMPLATE: Final = "spec.template."
"""What the places begin with that are in a pod template."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the live object is not as rendered."""

    place: str
    """For people: `spec.template.spec.containers[member].image`."""
    pointer: str
    """JSON pointer (RFC 6901) of the place in the live object."""
    wanted: object = field(repr=False)
    """None: nothing is rendered there."""
    has: object = field(repr=False)
    """None: nothing is there."""

    @property
    def is_addition(self) -> bool:
        """Whether somebody added something; server-side apply does not take it away."""
        return self.wanted is None

    @property
    def in_template(self) -> bool:
        """Whether pods are made otherwise because of it.

        The digest tells of a field that left the template and that any template may have. A
        StatefulSet that an earlier operator made has none, which tells nothing.
        """
        left = self.place == _TEMPLATE_DIGEST and self.has is not None
        return left or self.place.startswith(TEMPLATE)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a comparison is: for people, for tables and for patches."""

    kind: str
    shown: str = ""
    pattern: str = ""
    within: str = ""
    """The pattern of what holds it."""
    pointer: str = ""

    def key(self, name: str) -> _Place:
        """Return the place of a field."""
        escaped = name.replace("~", "~0").replace("/", "~1")
        return replace(
            self,
            shown=f"{self.shown}.{name}" if self.shown else name,
            pattern=f"{self.pattern}.{name}" if self.pattern else name,
            within=self.pattern,
            pointer=f"{self.pointer}/{escaped}",
        )

    def item(self, name: str, index: int | str) -> _Place:
        """Return the place of an item of a list."""
        return replace(
            self,
            shown=f"{self.shown}[{name}]",
            pattern=f"{self.pattern}[]",
            within=self.pattern,
            pointer=f"{self.pointer}/{index}",
        )

    def differs(self, wanted: object, has: object) -> Difference:
        """Return that the two are not the same here."""
        return Difference(self.shown, self.pointer, wanted, has)


def differences(rendered: KubeObject, live: KubeObject) -> tuple[Difference, ...]:
    """Return all places where the live object is not as rendered."""
    return tuple(_fields(rendered, live, _Place(rendered["kind"])))


def is_same_rendering(rendered: KubeObject, live: KubeObject) -> bool:
    """Return whether the live object was written for this very rendering.

    What differs then was changed by somebody else.
    """
    return _hash(rendered) == _hash(live)


def _compare(wanted: Any, has: Any, place: _Place) -> Iterator[Difference]:
    if _is_empty(wanted) and _is_empty(has):
        return
    if isinstance(wanted, dict) and isinstance(has, dict):
        yield from _fields(wanted, has, place)
    elif isinstance(wanted, list) and isinstance(has, list):
        yield from _items(wanted, has, place)
    elif not (_same(wanted, has) or _same_quantity(wanted, has, place)):
        yield place.differs(wanted, has)


def _fields(wanted: dict[str, Any], has: dict[str, Any], place: _Place) -> Iterator[Difference]:
    for key, value in wanted.items():
        yield from _compare(value, has.get(key), place.key(str(key)))
    for key, value in has.items():
        here = place.key(str(key))
        # Nothing, and an empty list, is what a field is that is not there. An empty object may
        # mean much: a namespaceSelector without labels is every namespace.
        added = key not in wanted and value not in (None, "", [])
        if added and not is_tolerated(place.kind, here.pattern, here.within, value, has):
            yield here.differs(None, value)


def _items(wanted: list[Any], has: list[Any], place: _Place) -> Iterator[Difference]:
    keys = key_fields(place.kind, place.pattern) if wanted else ()
    if not keys:
        yield from _ordered_items(wanted, has, place)
        return
    indexes = {_key(item, keys): index for index, item in enumerate(has)}
    for item in wanted:
        index = indexes.pop(_key(item, keys), None)
        here = place.item(_name(item, keys), "-" if index is None else index)
        yield from _compare(item, None if index is None else has[index], here)
    for index in indexes.values():
        here = place.item(_name(has[index], keys), index)
        if not is_tolerated(place.kind, here.pattern, here.within, has[index], {}):
            yield here.differs(None, has[index])


def _ordered_items(wanted: list[Any], has: list[Any], place: _Place) -> Iterator[Difference]:
    if len(wanted) != len(has):
        yield place.differs(wanted, has)
        return
    for index, (one, other) in enumerate(zip(wanted, has, strict=True)):
        yield from _compare(one, other, place.item(str(index), index))


def _key(item: Any, keys: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(item.get(key) for key in keys) if isinstance(item, dict) else (repr(item),)


def _name(item: Any, keys: tuple[str, ...]) -> str:
    return "/".join(map(str, _key(item, keys)))


def _same(wanted: Any, has: Any) -> bool:
    return bool(wanted == has) and isinstance(wanted, bool) == isinstance(has, bool)


def _same_quantity(wanted: Any, has: Any, place: _Place) -> bool:
    if not place.within.endswith(_AMOUNTS) and not place.pattern.endswith(_SIZE):
        return False
    amount = parse_quantity(str(wanted))
    return amount is not None and amount == parse_quantity(str(has))


def _is_empty(value: Any) -> bool:
    # The API server leaves empty strings, lists and most empty objects out of what it stores.
    return value is None or value in ("", [], {})


def _hash(obj: KubeObject) -> object:
    return (obj["metadata"].get("annotations") or {}).get(RENDERED_HASH_ANNOTATION)
