"""What a member that joins the others waits for, as it says so: in its log, and to whoever asks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Self

from grid_member.engine.nats.hail import greets
from grid_member.engine.nats.lookout import Lookout

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings

NOT_THERE: Final = "the other members are not there yet"
QUIET_S: Final = 3.0
"""How long a begin takes without a word in the log about who is not there: others start, too."""
ABSENT_S: Final = 1.0
"""Between two looks at who is not there."""
_NO_LEADER: Final = "temporarily unavailable"
"""What nats-server says when there is no majority."""
_NO_MAJORITY: Final = (
    "no majority of the members that hold the data is there; start the others, and if their data "
    "is lost for good, partialStart goes on with what is left and forceStart with nothing"
)
_NOT_CONFIRMED: Final = "no majority of the members that hold the data is there"
NOTHING_TO_RESCUE: Final = (
    "this member does not wait for the others: when those that are gone are lost for good, restart "
    "it and ask again"
)
_log: Final = logging.getLogger("grid.engine.nats")


def plainly(reason: str, settings: ClusterSettings) -> str:
    """Return what is waited for, as people put it."""
    if _NO_LEADER in reason and settings.directory is not None:
        return _NO_MAJORITY
    return reason


def without_majority(settings: ClusterSettings) -> str:
    """Return what is waited for when somebody leads and is confirmed by nobody."""
    return _NO_MAJORITY if settings.directory is not None else _NOT_CONFIRMED


class RollCall:
    """Who of the list answers at the members' port; goes on for as long as its block lasts."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Call nobody yet."""
        self._lookout = Lookout(settings, greets, ABSENT_S)
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._lookout.__aenter__()
        self._telling = asyncio.get_running_loop().create_task(self._tell())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        await self._lookout.__aexit__(*error)

    def added_to(self, reason: str | None) -> str | None:
        """Return what is waited for with who is there and who is not, as far as that is known."""
        told = self._told()
        return reason if reason is None or told is None else f"{reason} ({told})"

    async def _tell(self) -> None:
        """Log who is not there, when that is somebody else than before."""
        said: str | None = None
        await asyncio.sleep(QUIET_S)
        while True:
            told = self._told()
            if told not in {said, None}:
                said = told
                _log.warning("waiting for the other members: %s", told)
            await self._lookout.changed(QUIET_S)

    def _told(self) -> str | None:
        seen = self._lookout.seen
        if not self._lookout.complete or all(seen.values()):
            return None
        absent = ", ".join(address for address, found in sorted(seen.items()) if not found)
        there = ", ".join(address for address, found in sorted(seen.items()) if found)
        return f"no answer from {absent}; there: {there or 'nobody'}"
