"""What an audit line tells of the parameters of a call.

Only what the interface knows is told, in its own spelling: anything else that comes in the place of
a state, a version or a level may be a password. A map's name is told as it came: it says what was
changed, and no secret belongs there.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from grid_member.cluster.cp.subsystem import DEFAULT_GROUP, METADATA
from grid_member.cluster.values.versions import parse_version
from grid_member.engine.api import ClusterState
from grid_member.telemetry.levels import LEVELS
from grid_member.wan.agreement.added_json import AddedJsonError, read_added

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STATES: Final = frozenset(state.value for state in ClusterState)
_SHOWN_PARAMETERS: Final = 2
"""The parameter that is told; those before are the credentials."""
_WAN_OPERATIONS: Final = frozenset(
    {
        *("wan_clear_queues", "wan_pause_publisher", "wan_resume_publisher"),
        *("wan_stop_publisher", "wan_remove_config"),
        *("wan_sync_map", "wan_sync_all_maps", "wan_check_map"),
    }
)
_WAN_DETAILS: Final = ("replication", "publisher", "map")
"""What their parameters behind the credentials are; names of the configuration, as they came."""
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
    if operation in _WAN_OPERATIONS:
        named = zip(_WAN_DETAILS, parameters[_SHOWN_PARAMETERS:], strict=False)
        return {name: value for name, value in named if value}
    if operation == "wan_add_config" and len(parameters) > _SHOWN_PARAMETERS:
        return _replication(parameters[_SHOWN_PARAMETERS])
    if operation in _MAP_OPERATIONS:
        return {"map": names["name"]}
    if operation in _NAMES:
        name, given, known = _NAMES[operation]
        value = known(names[given])
    elif operation in _PARAMETERS and len(parameters) > _SHOWN_PARAMETERS:
        name, known = _PARAMETERS[operation]
        value = known(parameters[_SHOWN_PARAMETERS])
    else:
        return {}
    return {} if value is None else {name: value}


def _replication(text: str) -> dict[str, str]:
    """Return what publishers are added to; the rest of the JSON is not told."""
    try:
        added = read_added(text)
    except AddedJsonError:
        return {}
    ids = ",".join(each.publisher_id for each in added.publishers)
    return {"replication": added.name, "publisher": ids}


def _state(text: str) -> str | None:
    return text.lower() if text.lower() in _STATES else None


def _version(text: str) -> str | None:
    # Without what may follow: a qualifier is any text.
    version = parse_version(text)
    return None if version is None else str(version)


def _level(text: str) -> str | None:
    return text.upper() if text.upper() in LEVELS else None


def _group(text: str) -> str | None:
    if text.upper() == METADATA:
        return METADATA
    return text if text == DEFAULT_GROUP else None


def _member(text: str) -> str | None:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


_PARAMETERS: Final[Mapping[str | None, tuple[str, Callable[[str], str | None]]]] = {
    "change_state": ("state", _state),
    "change_version": ("version", _version),
    "log_level_set": ("log_level", _level),
}
_NAMES: Final[Mapping[str | None, tuple[str, str, Callable[[str], str | None]]]] = {
    "cp_group_remove": ("group", "name", _group),
    "cp_session_remove": ("group", "name", _group),
    "cp_member_remove": ("member", "uuid", _member),
}
"""What of a path is told: the name of the detail, and what the path calls it."""
