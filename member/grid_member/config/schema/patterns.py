"""What descriptions have in common: values as text, and patterns that both schemas read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.model.member import FORMER_GROUPS, EndpointGroup

if TYPE_CHECKING:
    from grid_member.config.settings.setting import Value

VARIABLE: Final = r"[$]\{[^}:]*(:[^}]*)?\}"
"""A value with a variable is anything at all until the member starts."""
INTEGER: Final = "[+-]?[0-9]{1,19}"
ONE_WILDCARD: Final = r"[^*]*\*?[^*]*"
_ADVANCED: Final = "advanced-network."


def shown(value: Value | None) -> str:
    """Return a default as documents have it."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash, for people
    return str(value).lower() if isinstance(value, bool) else str(value)


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
