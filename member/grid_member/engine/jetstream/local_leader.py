"""Has a member fed by its own server as soon as that one can.

A consumer with one replica is led by any server that holds the stream, whoever asks for it, and
stays with it as long as that lives. One that another server leads sends each record between
machines once more, and ends with that server: a new one is had from the leader of all servers only,
who may have to be elected first. So consumers are made beside the one that feeds until one of them
is led by the own server.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.streams import copies_of
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.admin.consumers import Consumers

TRIES: Final = 12
"""Consumers made, one after the other, in the hope of one that the own server leads."""
LOCAL_S: Final = 10.0
"""How often it is looked whether the servers moved the consumer away from the own one."""
SOON_S: Final = 1.0
"""How soon it is looked again whether the own server's copy is whole."""
SLOWER: Final = 1.25
"""How much later each time it is looked whether the own server is to have a copy at all."""
NO_COPY_S: Final = 10.0
MAX_PAUSE_S: Final = 60.0
"""Between two times that as many consumers as are made were all led by others; at most."""
_log: Final = logging.getLogger("grid.engine.nats")


class LocalLeader:
    """Looks who leads the server-side consumer of one stream consumer."""

    def __init__(
        self,
        consumers: Consumers,
        own_server: Callable[[], str | None],
        after: Callable[[], int],
        change: Callable[[int], None],
    ) -> None:
        """Look at nothing yet.

        `own_server` is that of `StreamConsumer`. `after` returns behind which message a consumer
        that is made now is to begin, `change` is told the number of the one that is to feed from
        now on.
        """
        self._consumers = consumers
        self._own_server = own_server
        self._after = after
        self._change = change
        self._number = 0
        self._pause_s = 0.0
        """Until the next look."""

    def note_leader(self, number: int, leader: str | None) -> None:
        """Hear which consumer delivers from now on, and who leads it."""
        self._number = number
        own = self._own_server()
        away = leader is not None and own is not None and leader != own
        self._pause_s = 0.0 if away else LOCAL_S

    async def keep(self) -> None:
        """Have the consumer led by the own server, until this is cancelled."""
        while True:
            await asyncio.sleep(self._pause_s)
            await self.look()

    async def look(self) -> None:
        """Look once who leads it, and bring it home when another server does and that can be."""
        try:
            self._pause_s = await self._next_look_s()
        except (NatsError, ValueError, KeyError, TypeError) as error:
            _log.debug("the consumer of %s stays where it is: %s", self._consumers.stream, error)
            self._pause_s = self._later_s()

    async def _next_look_s(self) -> float:
        own = self._own_server()
        if own is None or await self._consumers.leader(self._number) in {own, None}:
            return LOCAL_S
        copies = await copies_of(self._consumers.client, self._consumers.stream)
        if peer_id(own) not in copies.servers:
            return min(max(SOON_S, SLOWER * self._pause_s), NO_COPY_S)
        if copies.moving or peer_id(own) not in copies.current:
            return SOON_S
        return LOCAL_S if await self._move_to(own) else self._later_s()

    def _later_s(self) -> float:
        return min(max(SOON_S, 2 * self._pause_s), MAX_PAUSE_S)

    async def _move_to(self, own: str) -> bool:
        """Make consumers until the own server leads one; the one before feeds until then."""
        for _ in range(TRIES):
            number = self._consumers.number()
            home = False
            try:
                home = await self._consumers.make(number, self._after()) == own
            finally:
                # One that nobody told of may be there, too.
                self._consumers.give_up(self._number if home else number)
            if home:
                self._number = number
                self._change(number)
                return True
        return False
