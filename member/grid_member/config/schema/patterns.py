"""What descriptions have in common: values as text, and patterns that both schemas read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.model.member import FORMER_GROUPS, EndpointGroup
from grid_member.config.settings.wan import BATCH_PUBLISHER

if TYPE_CHECKING:
    from grid_member.config.settings.setting import Setting

if TYPE_CHECKING:
    from grid_member.config.settings.setting import Value

VARIABLE: Final = r"[$]\{[^}:]*(:[^}]*)?\}"
"""A value with a variable is anything at all until the member starts."""
INTEGER: Final = "[+-]?[0-9]{1,19}"
ONE_WILDCARD: Final = r"[^*]*\*?[^*]*"
PLAIN_NAME: Final = "[^&]*"
_PLAIN_NAMES: Final = ("wan-replication", BATCH_PUBLISHER, "map.*.wan-replication-ref")
_ADVANCED: Final = "advanced-network."


def shown(value: Value | None) -> str:
    """Return a default as documents have it."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash, for people
    return str(value).lower() if isinstance(value, bool) else str(value)


def any_case_pattern(word: str) -> str:
    """Return a pattern for the word in upper, lower or mixed case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in word)


def choice_pattern(setting: Setting) -> str:
    """Return a pattern for the choices of a setting in any case."""
    choices = "|".join(any_case_pattern(choice) for choice in setting.choices)
    return f"([A-Za-z0-9_$]+[.])*({choices})" if setting.drops_package else choices


def group_names(path: str) -> str:
    """Return a pattern for the names of endpoint groups that are right in the section path."""
    names = [*(group.value for group in EndpointGroup), *FORMER_GROUPS]
    if not path.startswith(_ADVANCED):
        names = [any_case_pattern(name).replace("_", "_?") for name in names]
    return "|".join(names)


def name_pattern(path: str) -> str:
    """Return a pattern for the free names that are right in the section path."""
    if path.endswith(".endpoint-groups"):
        return group_names(path)
    return PLAIN_NAME if path in _PLAIN_NAMES else ONE_WILDCARD
