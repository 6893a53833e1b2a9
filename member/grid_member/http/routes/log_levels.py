"""The operations on the log level of this member; they work whatever state it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.http.routes.idempotent import management_of
from grid_member.http.wire.answers import Answer, document, error, success
from grid_member.telemetry.levels import LEVELS

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall


async def log_level_get(call: HttpCall) -> Answer:
    """Return the level that was set, null when the configured one holds."""
    return document({"logLevel": management_of(call).log_levels.level})


async def log_level_set(call: HttpCall) -> Answer:
    """Set the level."""
    if not management_of(call).log_levels.change(call.parameters[2]):
        return error(400, f"the third parameter must be one of {', '.join(LEVELS)}")
    return success(message="log level is changed")


async def log_level_reset(call: HttpCall) -> Answer:
    """Restore the configured level."""
    management_of(call).log_levels.reset()
    return success(message="log level is reset")
