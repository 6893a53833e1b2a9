"""Looks at the connections of a listener now and then, in place of a timer for each of them."""

from __future__ import annotations

import asyncio
import logging
import select
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.logs import event, failure
from grid_member.security.remotes import unmapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PERIOD_S: Final = 1.0
"""How much later than its time at most something is given up."""
AT_ONCE: Final = 100
"""How many connections are looked at before the loop goes on with something else."""
LINGER_S: Final = 2.0
"""How long what nobody wants is read, so that the answer that ends a connection gets through."""
_log: Final = logging.getLogger("grid.http")


class Watched(Protocol):
    """A connection that may have to be given up."""

    def look(self, now_s: float) -> None:
        """Give up what has waited for too long; now_s is the time of the event loop.

        May be called before the connection is made.
        """

    async def finish(self) -> None:
        """Answer what has begun to come, nothing after that; return when the connection is gone."""

    def cut(self) -> None:
        """End the connection now."""


class Watch:
    """The open connections of one listener. No timer runs while there is none."""

    def __init__(self) -> None:
        self._connections: set[Watched] = set()
        self._timer: asyncio.Handle | None = None

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._connections)

    def __iter__(self) -> Iterator[Watched]:
        """Iterate over those that are open now."""
        return iter(list(self._connections))

    def add(self, connection: Watched) -> None:
        """Begin to look at a connection; nothing happens when that was so already."""
        self._connections.add(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._begin)

    def discard(self, connection: Watched) -> None:
        """Look at it no more; nothing happens when that was so already."""
        self._connections.discard(connection)

    def _begin(self) -> None:
        self._look(list(self._connections))

    def _look(self, left: list[Watched]) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection in left[-AT_ONCE:]:
            if connection in self._connections:
                _look_at(connection, now_s)
        del left[-AT_ONCE:]
        if left:
            self._timer = loop.call_soon(self._look, left)
        else:
            self._timer = loop.call_later(PERIOD_S, self._begin) if self._connections else None


def _look_at(connection: Watched, now_s: float) -> None:
    try:
        connection.look(now_s)
    except Exception as problem:
        # The others must be looked at all the same, now and later.
        failure(_log, "connection failed", problem)
        connection.cut()


class Unread:
    """Tells when a client has read nothing for too long of what waits for it.

    Made when something begins to wait, and thrown away when nothing does.
    """

    __slots__ = ("_since_s", "_taken_bytes", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._since_s: float | None = None
        self._taken_bytes = 0

    def overdue(self, now_s: float, buffered_bytes: int, written_bytes: int = 0) -> bool:
        """Tell whether the kernel has taken nothing for the whole timeout, as far as was asked.

        Args:
            now_s: the time of the event loop.
            buffered_bytes: what the transport holds now.
            written_bytes: what it was given altogether; needed where more is written meanwhile.
        """
        taken_bytes = written_bytes - buffered_bytes
        if self._since_s is None or taken_bytes > self._taken_bytes:
            self._since_s = now_s
        self._taken_bytes = taken_bytes
        return now_s - self._since_s >= self._timeout_s


def end_writing(transport: asyncio.WriteTransport) -> None:
    """Send the end behind the last answer, unless the client has gone and that was not read yet."""
    try:
        transport.write_eof()
    except OSError:
        transport.abort()


def cut_off(transport: asyncio.WriteTransport) -> None:
    """Abort the connection of a client that does not read its answers."""
    peer = transport.get_extra_info("peername")
    remote = unmapped(str(peer[0])) if peer else None
    event(_log, logging.INFO, "client does not read its answer", remote=remote)
    transport.abort()


def departure(transport: asyncio.BaseTransport) -> Callable[[int], list[tuple[int, int]]]:
    """Return what tells whether the client has gone or ended its side, though that was not read.

    Called with 0 it returns nothing as long as it has not; not to be called once the transport is
    closing. For connections that ask often: making it costs as much as asking `Departures` does.
    """
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLRDHUP)
    return poll.poll


class Departures:
    """Looks whether clients have left, though that was not read yet."""

    def __init__(self) -> None:
        self._poll = select.poll()

    def left(self, transport: asyncio.BaseTransport) -> bool:
        """Tell whether the client has gone or ended its side."""
        if transport.is_closing():
            return True
        number = transport.get_extra_info("socket").fileno()
        self._poll.register(number, select.POLLRDHUP)
        left = self._poll.poll(0)
        self._poll.unregister(number)
        return bool(left)
