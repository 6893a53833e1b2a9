"""What keeps a member's server from storing, as the member tells the others.

A server whose disk is full ends, and ends again as soon as it is started. So its member tells the
other servers itself, as a server would, and no server has to store that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.bootstrap.member_probe import send_message
from grid_member.engine.io.ending import end_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.wire import Message

SUBJECT: Final = b"grid.complaint"
TELL_S: Final = 2.0
"""How often it is told."""
BELIEVED_S: Final = 10.0
"""How long it is believed after it was heard last."""
_MOST: Final = 16
"""Members that are remembered."""
_MOST_CHARACTERS: Final = 300


class _DiskAlarm(NamedTuple):
    trouble: str
    heard_s: float


_log: Final = logging.getLogger("grid.engine.nats")


class DiskAlarms:
    """Tells of this member's trouble, and remembers that of others.

    Args:
        settings: what this member is called, and where the others are.
        own: what keeps its server from storing and what to do, None: nothing is known.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        own: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._own = own
        self._clock = clock
        self._alarms: dict[str, _DiskAlarm] = {}
        self._telling: asyncio.Task[None] | None = None

    @property
    def of_others(self) -> str | None:
        """What other members said lately; None: nothing."""
        since_s = self._clock() - BELIEVED_S
        told = [
            f"the member {member} says: {one.trouble}"
            for member, one in sorted(self._alarms.items())
            if one.heard_s >= since_s
        ]
        return "; ".join(told) or None

    def begin(self, client: NatsClient) -> None:
        """Tell the others, and listen over this connection to the own server."""
        client.subscribe(SUBJECT, self._take)
        self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def end(self) -> None:
        """Tell nothing any more."""
        telling, self._telling = self._telling, None
        await end_tasks(telling)

    async def _tell(self) -> None:
        settings = self._settings
        while True:
            trouble = self._own()
            if trouble is not None:
                said = {"member": settings.member_name, "trouble": trouble}
                payload = json.dumps(said).encode()
                await asyncio.gather(
                    *(
                        send_message(settings, *place, SUBJECT, payload)
                        for place in settings.members
                    )
                )
            await asyncio.sleep(TELL_S)

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # of a later version
                said = json.loads(message.payload)
                self._remember(
                    str(said["member"])[:_MOST_CHARACTERS], " ".join(str(said["trouble"]).split())
                )

    def _remember(self, member: str, trouble: str) -> None:
        now_s = self._clock()
        self._alarms = {
            name: one
            for name, one in self._alarms.items()
            if name == member or one.heard_s >= now_s - BELIEVED_S
        }
        former = self._alarms.get(member)
        crowded = former is None and len(self._alarms) >= _MOST
        if crowded or member == self._settings.member_name:
            return
        self._alarms[member] = _DiskAlarm(trouble[:_MOST_CHARACTERS], now_s)
        if former is None or now_s - former.heard_s > BELIEVED_S:
            _log.warning("the member %s says: %s", member, trouble[:_MOST_CHARACTERS])
