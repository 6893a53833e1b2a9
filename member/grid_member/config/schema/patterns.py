"""Patterns that the two schemas have in common; both languages read them the same way."""

from __future__ import annotations

from typing import Final

from grid_member.config.model.member import FORMER_GROUPS, EndpointGroup

VARIABLE: Final = r"[$]\{[^}:]*(:[^}]*)?\}"
"""A value with a variable is anything at all until the member starts."""
INTEGER: Final = "[+-]?[0-9]{1,19}"
ONE_WILDCARD: Final = r"[^*]*\*?[^*]*"
_ADVANCED: Final = "advanced-network."


def any_case_pattern(word: str) -> str:
    """Return a pattern for the word in upper, lower or mixed case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in word)


def group_names(path: str) -> str:
    """Return a pattern for the names of endpoint groups that are right in the section path."""
    names = [*(group.value for group in EndpointGroup), *FORMER_GROUPS]
    if not path.startswith(_ADVANCED):
        names = [any_case_pattern(name).replace("_", "_?") for name in names]
    return "|".join(names)


def name_pattern(path: str) -> str:
    """Return a pattern for the free names that are right in the section path."""
    return group_names(path) if path.endswith(".endpoint-groups") else ONE_WILDCARD
