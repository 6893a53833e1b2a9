"""What a member that joins the others waits for, as it says so: in its log, and to whoever asks."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Final, Self

from grid_member.engine.bootstrap.discovery import AddressPolling
from grid_member.engine.bootstrap.member_probe import connected_clusters, has_member
from grid_member.engine.io.ending import end_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient

ABSENT: Final = "the other members are not there yet"
QUIET_S: Final = 3.0
"""How long a begin takes without a word in the log about who is not there: others start, too."""
ABSENT_S: Final = 1.0
"""Between two looks at who is not there."""
ASK_S: Final = 2.0
"""Between two questions to those that are there whether they have data."""
NO_LEADER: Final = "temporarily unavailable"
"""What nats-server says when there is no majority."""
_NO_ANSWER: Final = re.compile("^(nats-server did not answer|nobody listens to the subject)")
"""What becomes of a question that the leader of the servers would answer."""
ELECTING: Final = "the members' servers have no leader yet"
_NOT_CONFIRMED: Final = "no majority of the members that hold the data is there"
_WITHOUT_OTHERS: Final = (
    f"{_NOT_CONFIRMED}; start the others, and if their data is lost for good, partialStart goes on "
    "with what is left"
)
_NO_MAJORITY: Final = f"{_WITHOUT_OTHERS} and forceStart with nothing"
_NEW: Final = (
    "a new cluster begins when all members of the list are there, as one that is missing may have "
    "its data; start the others, or begin, on empty base directories, with lists that name only "
    "those that are there"
)
_log: Final = logging.getLogger("grid.engine.nats")


def majority_wait(settings: ClusterSettings, *, joined: bool = False) -> str:
    """Return what is waited for when somebody leads and is confirmed by nobody.

    Args:
        settings: of the member.
        joined: whether it has read what there is: nothing of that is deleted any more.
    """
    if settings.directory is None:
        return _NOT_CONFIRMED
    return _WITHOUT_OTHERS if joined else _NO_MAJORITY


class WaitReasons:
    """Who of the list answers at the members' port; goes on for as long as its block lasts."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Call nobody yet."""
        self._settings = settings
        self._polling = AddressPolling(settings, has_member, ABSENT_S)
        self._tasks: list[asyncio.Task[None]] = []
        self._new: bool | None = None
        """Whether none of those that are there has data; None before that is known."""
        self._apart: Callable[[], str | None] = lambda: None

    async def __aenter__(self) -> Self:
        await self._polling.__aenter__()
        self._tasks = [asyncio.get_running_loop().create_task(self._tell())]
        return self

    async def __aexit__(self, *error: object) -> None:
        await end_tasks(*self._tasks)
        await self._polling.__aexit__(*error)

    def watch_clusters(self, client: NatsClient, apart: Callable[[], str | None]) -> None:
        """Hear from now on of which clusters the others are.

        Args:
            client: of the member's own server, which may not be connected yet.
            apart: returns why this member and others do not take each other, None when they do.
        """
        self._apart = apart
        self._tasks.append(asyncio.get_running_loop().create_task(self._ask(client)))

    def plainly(self, reason: str) -> str:
        """Return what is waited for, as people put it."""
        if _NO_ANSWER.search(reason):
            return ELECTING
        if NO_LEADER not in reason:
            return reason
        if self._new is None:
            return ABSENT
        return _NEW if self._new else majority_wait(self._settings)

    def with_absence(self, reason: str | None) -> str | None:
        """Return what is waited for with who is there and who is not, as far as that is known."""
        if reason is None:
            return None
        told, apart = self._absence(), self._apart()
        reason = reason if told is None else f"{reason} ({told})"
        return reason if apart is None else f"{apart}; {reason}"

    async def _ask(self, client: NatsClient) -> None:
        """Find out whether somebody that is there has data."""
        while True:
            told = await connected_clusters(client)
            if any(told):
                self._new = False
                return  # and it stays so, however late others answer
            if told:
                self._new = True
            await asyncio.sleep(ASK_S)

    async def _tell(self) -> None:
        """Log who is not there, when that is somebody else than before."""
        said: str | None = None
        await asyncio.sleep(QUIET_S)
        while True:
            told = self._absence()
            if told not in {said, None}:
                said = told
                _log.warning("waiting for the other members: %s", told)
            await self._polling.await_change(QUIET_S)

    def _absence(self) -> str | None:
        seen = self._polling.occupants
        if not self._polling.is_complete or all(seen.values()):
            return None
        absent = ", ".join(address for address, found in sorted(seen.items()) if not found)
        there = ", ".join(address for address, found in sorted(seen.items()) if found)
        return f"no answer from {absent}; there: {there or 'nobody'}"
