"""What an audit line tells of the parameters of a call.

Only what the interface knows is told, in its own spelling: anything else that comes in the place of
a state, a version or a level may be a password. A map's name is told as it came: it says what was
changed, and no secret belongs there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.log_levels import LEVELS
from grid_member.cluster.versions import parse_version
from grid_member.engine.api import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STATES: Final = frozenset(state.value for state in ClusterState)
_TOLD: Final = 2
"""The parameter that is told; those before are the credentials."""
_MAP_OPERATIONS: Final = frozenset({"map_put", "map_remove", "map_clear"})


def details(
    operation: str | None, names: Mapping[str, str], parameters: tuple[str, ...]
) -> dict[str, str]:
    """Return what a line tells of a call, by the names of `audit.DETAILS`.

    Args:
        operation: the name of what carries the call out.
        names: what the braces of its path stand for.
        parameters: those of its body, the credentials first.
    """
    if operation in _MAP_OPERATIONS:
        return {"map": names["name"]}
    told = _PARAMETERS.get(operation or "")
    if told is None or len(parameters) <= _TOLD:
        return {}
    name, known = told
    value = known(parameters[_TOLD])
    return {} if value is None else {name: value}


def _state(text: str) -> str | None:
    return text.lower() if text.lower() in _STATES else None


def _version(text: str) -> str | None:
    # Without what may follow: a qualifier is any text.
    version = parse_version(text)
    return None if version is None else str(version)


def _level(text: str) -> str | None:
    return text.upper() if text.upper() in LEVELS else None


_PARAMETERS: Final[Mapping[str, tuple[str, Callable[[str], str | None]]]] = {
    "change_state": ("state", _state),
    "change_version": ("version", _version),
    "log_level_set": ("log_level", _level),
}
