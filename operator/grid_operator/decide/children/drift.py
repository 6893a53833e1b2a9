"""Tells what of a child is not in the live object as it was rendered.

A value that is missing or another counts, and so does whatever was added that the child may not
have (see `tolerance`): a key more in a selector makes another selector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_operator.api.names import RENDERED_HASH_ANNOTATION, TEMPLATE_HASH_ANNOTATION
from grid_operator.api.quantity import parse_quantity
from grid_operator.decide.children.tolerance import (
    IN_ORDER,
    KEY_DEFAULTS,
    LEFT_OUT,
    ZERO_IS_NONE,
    is_tolerated,
    key_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grid_operator.api.objects import KubeObject

_AMOUNTS: Final = frozenset({"requests", "limits"})
_SIZES: Final = frozenset({"sizeLimit", "divisor"})
_TEMPLATE_DIGEST: Final = f"metadata.annotations.{TEMPLATE_HASH_ANNOTATION}"
TEMPLATE: Final = "spec.template."
"""What the places begin with that are in a pod template."""
_POD: Final = f"{TEMPLATE}spec."
"""Others, such as labels, are not filled in, and an empty value of theirs is a value."""


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


class _Place(NamedTuple):
    """Where a comparison is. Most places are never told of, so their names are made when needed."""

    kind: str
    within: _Place | None = None
    name: str = ""
    position: int | str | None = None
    """Of an item of a list; None: `name` is a field."""

    @property
    def shown(self) -> str:
        """For people."""
        if self.within is None:
            return ""
        if self.position is not None:
            return f"{self.within.shown}[{self.name}]"
        return f"{self.within.shown}.{self.name}".removeprefix(".")

    @property
    def pattern(self) -> str:
        """For tables: the same for all items of a list."""
        if self.within is None:
            return ""
        if self.position is not None:
            return f"{self.within.pattern}[]"
        return f"{self.within.pattern}.{self.name}".removeprefix(".")

    @property
    def pointer(self) -> str:
        """For patches."""
        if self.within is None:
            return ""
        step = self.name if self.position is None else str(self.position)
        return f"{self.within.pointer}/{step.replace('~', '~0').replace('/', '~1')}"

    def key(self, name: str) -> _Place:
        """Return the place of a field."""
        return _Place(self.kind, self, name)

    def item(self, name: str, position: int | str) -> _Place:
        """Return the place of an item of a list."""
        return _Place(self.kind, self, name, position)

    def differs(self, wanted: object, has: object) -> Difference:
        """Return that the two are not the same here."""
        return Difference(self.shown, self.pointer, wanted, has)

    def may_have(self, value: object, siblings: Mapping[str, object]) -> bool:
        """Return whether the value may be here without being rendered."""
        within = "" if self.within is None else self.within.pattern
        return is_tolerated(self.kind, self.pattern, within, value, siblings)


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
    if has is None and _is_left_out(wanted, place):
        return
    if isinstance(wanted, dict) and isinstance(has, dict):
        yield from _fields(wanted, has, place)
    elif isinstance(wanted, list) and isinstance(has, list):
        yield from _items(wanted, has, place)
    elif not (_same(wanted, has) or _same_quantity(wanted, has, place)):
        yield place.differs(wanted, has)


def _fields(wanted: dict[str, Any], has: dict[str, Any], place: _Place) -> Iterator[Difference]:
    for key, value in wanted.items():
        there = has.get(key)
        if not _same(value, there):
            here = place.key(str(key))
            if not _is_filled_in(value, there, here, has):
                yield from _compare(value, there, here)
    for key, value in has.items():
        # Nothing, and an empty list, is what a field is that is not there. An empty object may
        # mean much: a namespaceSelector without labels is every namespace.
        if key not in wanted and value not in (None, "", []):
            here = place.key(str(key))
            if not here.may_have(value, has):
                yield here.differs(None, value)


def _items(wanted: list[Any], has: list[Any], place: _Place) -> Iterator[Difference]:
    keys = key_fields(place.kind, place.pattern) if wanted else ()
    if not keys:
        yield from _ordered_items(wanted, has, place)
        return
    indexes = {_key(item, keys): index for index, item in enumerate(has)}
    if place.pattern in IN_ORDER and _is_reordered(wanted, has, keys):
        yield place.differs(wanted, has)
        return
    for item in wanted:
        index = indexes.pop(_key(item, keys), None)
        here = place.item(_name(item, keys), "-" if index is None else index)
        yield from _compare(item, None if index is None else has[index], here)
    for index in indexes.values():
        here = place.item(_name(has[index], keys), index)
        if not here.may_have(has[index], {}):
            yield here.differs(None, has[index])


def _is_reordered(wanted: list[Any], has: list[Any], keys: tuple[str, ...]) -> bool:
    one, other = [_key(item, keys) for item in wanted], [_key(item, keys) for item in has]
    return one != other and set(one) == set(other)


def _ordered_items(wanted: list[Any], has: list[Any], place: _Place) -> Iterator[Difference]:
    if len(wanted) != len(has):
        yield place.differs(wanted, has)
        return
    for index, (one, other) in enumerate(zip(wanted, has, strict=True)):
        yield from _compare(one, other, place.item(str(index), index))


def _key(item: Any, keys: tuple[str, ...]) -> tuple[object, ...]:
    if not isinstance(item, dict):
        return (repr(item),)
    return tuple(item.get(key, KEY_DEFAULTS.get(key)) for key in keys)


def _name(item: Any, keys: tuple[str, ...]) -> str:
    return "/".join(map(str, _key(item, keys)))


def _same(wanted: Any, has: Any) -> bool:
    return bool(wanted == has) and isinstance(wanted, bool) == isinstance(has, bool)


def _same_quantity(wanted: Any, has: Any, place: _Place) -> bool:
    holder = "" if place.within is None else place.within.name
    if holder not in _AMOUNTS and place.name not in _SIZES:
        return False
    amount = parse_quantity(str(wanted))
    return amount is not None and amount == parse_quantity(str(has))


def _is_filled_in(wanted: Any, has: Any, place: _Place, siblings: Mapping[str, Any]) -> bool:
    """Return whether the API server put its default there because what is wanted says nothing."""
    is_unsaid = wanted is None or wanted == "" or (wanted == 0 and place.name in ZERO_IS_NONE)
    return is_unsaid and place.shown.startswith(_POD) and place.may_have(has, siblings)


def _is_left_out(wanted: Any, place: _Place) -> bool:
    left_out = LEFT_OUT.get(place.name)
    return left_out is not None and _same(wanted, left_out)


def _is_empty(value: Any) -> bool:
    # The API server leaves empty strings, lists and most empty objects out of what it stores.
    return value is None or value in ("", [], {})


def _hash(obj: KubeObject) -> object:
    return (obj["metadata"].get("annotations") or {}).get(RENDERED_HASH_ANNOTATION)
