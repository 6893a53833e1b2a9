"""What differs between two specs, field by field. Values are never shown: one may be a password."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Spec: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, ...]
"""Where something is in a spec; an item of a list that has a name is `[name]`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed field."""

    place: Place
    kind: str
    """`added`, `removed` or `changed`."""

    @property
    def field(self) -> str:
        """The field as people write it: `maps[orders].maxIdleSeconds`."""
        return "".join(p if p.startswith("[") else f".{p}" for p in self.place).removeprefix(".")

    @property
    def units(self) -> tuple[Place, ...]:
        """The parts of the spec around it, smallest first: a field alone may be no valid spec."""
        return tuple(self.place[:depth] for depth in range(len(self.place), 0, -1))


def differences(old: Spec, new: Spec) -> list[Difference]:
    """Return what has changed, in the order of the new spec."""
    return list(_compared((), old, new))


def with_unit(old: Spec, new: Spec, unit: Place) -> Spec:
    """Return the old spec with one unit as it is in the new one."""
    changed = copy.deepcopy(old)
    _put(changed, new, unit)
    return changed


def _compared(place: Place, old: Any, new: Any) -> Iterator[Difference]:
    if old == new:
        return
    before, after = _named(old), _named(new)
    if before is None or after is None:
        yield Difference(place, _kind(old, new))
        return
    for name in dict.fromkeys([*after, *before]):
        here = (*place, name)
        if name not in before or name not in after:
            yield Difference(here, "added" if name in after else "removed")
        else:
            yield from _compared(here, before[name], after[name])


def _kind(old: Any, new: Any) -> str:
    if old is None:
        return "added"
    return "removed" if new is None else "changed"


def _named(value: Any) -> dict[str, Any] | None:
    """Return the parts of a mapping, or of a list whose items have names; None of anything else."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and all(isinstance(i, dict) and "name" in i for i in value):
        found = {f"[{item['name']}]": item for item in value}
        # Several mounts may name one volume.
        return found if len(found) == len(value) else None
    return None


def _put(target: Spec, source: Spec, unit: Place) -> None:
    name, below = unit[0], unit[1:]
    if not below:
        if name in source:
            target[name] = copy.deepcopy(source[name])
        else:
            target.pop(name, None)
        return
    old, new = target.get(name), source.get(name)
    if isinstance(old, dict) and isinstance(new, dict):
        _put(old, new, below)
    elif isinstance(old, list) and isinstance(new, list) and below[0].startswith("["):
        target[name] = _with_item(old, new, below[0])
    else:
        target[name] = copy.deepcopy(new)


def _with_item(old: list[Any], new: list[Any], key: str) -> list[Any]:
    wanted = next((item for item in new if f"[{item['name']}]" == key), None)
    kept = [wanted if f"[{item['name']}]" == key else item for item in old]
    if all(f"[{item['name']}]" != key for item in old):
        kept.append(wanted)
    return [copy.deepcopy(item) for item in kept if item is not None]
