"""An element that exists elsewhere and is refused here by name, unless it is off.

Silently leaving one out would make a configuration mean less than it says. What is off anyway means
nothing here either: it is taken, so that the configurations of the peer product need fewer changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.config.tree import Scalar, Section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grid_member.config.tree import Node

NOT_YET: Final = "is not supported yet"
LEAVE_OUT: Final = f"{NOT_YET}: leave it out"
ENABLED: Final = "enabled"
_FALSE: Final = "false"


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """An element that this version does not have, why, and which forms of it say nothing."""

    path: str
    why: str = LEAVE_OUT
    switch: str = ""
    """The child that turns the element off when it is false; empty when there is none."""
    off: tuple[str, ...] = ()
    """Values, in lower case, that say nothing where all that is in the element is one of them."""
    empty: bool = False
    """Whether the element says nothing when nothing is in it."""

    def is_off(self, node: Node, resolved: Callable[[str], str | None]) -> bool:
        """Tell whether what is written says nothing.

        Args:
            node: what is written.
            resolved: returns a text with its variables replaced, None when that is not known yet,
                or was complained of: then it counts as off.
        """
        if isinstance(node, Section) and self._has_switch(node):
            return self._is_switched_off(node, resolved)
        leaves = list(_leaves(node))
        if not leaves:
            return self.empty and not (isinstance(node, Section) and node.children)
        return bool(self.off) and all(_matches_one(leaf, self.off, resolved) for leaf in leaves)

    def _has_switch(self, node: Section) -> bool:
        below = node.children.values()
        named = bool(below) and all(isinstance(child, Section) for child in below)
        return bool(self.switch) and (self.switch in node.children or named)

    def _is_switched_off(self, node: Section, resolved: Callable[[str], str | None]) -> bool:
        child = node.children.get(self.switch)
        if isinstance(child, Scalar):
            return _matches_one(child.text or "", (_FALSE,), resolved)
        # Elements with names: each of them has to be off.
        return all(
            isinstance(below, Section) and self._is_switched_off(below, resolved)
            for below in node.children.values()
        ) and bool(node.children)


def refused_settings(
    prefix: str,
    *names: str,
    why: str = LEAVE_OUT,
    switch: str = "",
    off: tuple[str, ...] = (),
    empty: bool = False,
) -> tuple[RefusedSetting, ...]:
    """Return elements below a prefix that have all the rest in common."""
    return tuple(RefusedSetting(f"{prefix}{name}", why, switch, off, empty) for name in names)


def _matches_one(text: str, values: tuple[str, ...], resolved: Callable[[str], str | None]) -> bool:
    found = resolved(text)
    return found is None or found.strip().lower() in values


def _leaves(node: Node) -> Iterator[str]:
    if isinstance(node, Scalar):
        if node.text:
            yield node.text
        return
    for below in node.children.values() if isinstance(node, Section) else node.items:
        yield from _leaves(below)
