"""Which keys of a map are replicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grid_member.engine.wan.agreement import MapReference


class KeyFilter:
    """The patterns of a map's reference, each with one `*` at most."""

    __slots__ = ("_exclude", "_include", "takes_all")

    def __init__(self, reference: MapReference | None) -> None:
        """Take the patterns; without a reference every key is included."""
        self._include = () if reference is None else reference.include
        self._exclude = () if reference is None else reference.exclude
        self.takes_all = not self._include and not self._exclude

    def includes(self, key: str) -> bool:
        """Tell whether changes of the key are replicated."""
        if self.takes_all:
            return True
        if self._include and not any(_matches(pattern, key) for pattern in self._include):
            return False
        return not any(_matches(pattern, key) for pattern in self._exclude)


def _matches(pattern: str, key: str) -> bool:
    head, star, tail = pattern.partition("*")
    if not star:
        return key == pattern
    return len(key) >= len(head) + len(tail) and key.startswith(head) and key.endswith(tail)
