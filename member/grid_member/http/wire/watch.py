"""Looks at the connections of a listener now and then, in place of a timer for each of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.security.remotes import remote_of
from grid_member.telemetry.logs import failure, repeatable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PERIOD_S: Final = 1.0
"""How much later than its time at most something is given up."""
AT_ONCE: Final = 100
"""How many connections are looked at before the loop goes on with something else."""
ANSWERS_PER_LOOK: Final = 32
"""How many answers of one turn of the loop follow one look at who has left: half a millisecond."""
LINGER_S: Final = 2.0
"""How long what nobody wants is read, so that the answer that ends a connection gets through."""
_log: Final = logging.getLogger("grid.http")


class WatchedConnection(Protocol):
    """A connection that may have to be given up."""

    def look(self, now_s: float) -> None:
        """Give up what has waited for too long; now_s is the time of the event loop.

        May be called before the connection is made.
        """

    async def finish(self) -> None:
        """Answer what has begun to come, nothing after that; return when the connection is gone."""

    def abort(self) -> None:
        """End the connection now."""


class Watch:
    """The open connections of one listener. No timer runs while there is none."""

    def __init__(self) -> None:
        self._connections: set[WatchedConnection] = set()
        self._timer: asyncio.Handle | None = None

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._connections)

    def __iter__(self) -> Iterator[WatchedConnection]:
        """Iterate over those that are open now."""
        return iter(list(self._connections))

    def add(self, connection: WatchedConnection) -> None:
        """Begin to look at a connection; nothing happens when that was so already."""
        self._connections.add(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._begin)

    def discard(self, connection: WatchedConnection) -> None:
        """Look at it no more; nothing happens when that was so already."""
        self._connections.discard(connection)

    def _begin(self) -> None:
        self._look(list(self._connections))

    def _look(self, left: list[WatchedConnection]) -> None:
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


def _look_at(connection: WatchedConnection, now_s: float) -> None:
    try:
        connection.look(now_s)
    except Exception as problem:
        # The others must be looked at all the same, now and later.
        failure(_log, "connection failed", problem)
        connection.abort()


class UnreadTimer:
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


def abort(transport: asyncio.WriteTransport) -> None:
    """Abort the connection of a client that does not read its answers."""
    remote = remote_of(transport)
    repeatable(_log, logging.INFO, "client does not read its answer", remote=remote)
    transport.abort()


def write_pieces(transport: asyncio.WriteTransport, pieces: Sequence[bytes]) -> None:
    """Write an answer whose pieces are too large to be joined, in one call where that is possible.

    A head that goes out by itself wakes its reader for nothing.
    """
    if type(transport).__module__.startswith("uvloop"):
        transport.writelines(pieces)
    else:
        # asyncio's own joins them (3.11), or pauses nobody who writes too much (CVE-2024-12254).
        for piece in pieces:
            transport.write(piece)


class Departures:
    """Looks whether clients have left, though that was not read yet."""

    def __init__(self) -> None:
        self._poll = select.poll()

    def has_left(self, transport: asyncio.BaseTransport) -> bool:
        """Tell whether the client has gone or ended its side."""
        if transport.is_closing():
            return True
        number = transport.get_extra_info("socket").fileno()
        self._poll.register(number, select.POLLRDHUP)
        left = self._poll.poll(0)
        self._poll.unregister(number)
        return bool(left)


class LostClients:
    """Knows which of many connections were left: one look serves many answers.

    For connections that ask often: a look of its own costs each of them as much as writing a fifth
    of its answer does.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._most = 64
        """Connections that one look may find left; it grows."""
        self._departed_numbers: frozenset[int] = frozenset()
        self._answers = 0
        """For how many more answers of this turn of the loop that holds."""

    def follow(self, transport: asyncio.BaseTransport) -> int:
        """Return what the connection is known by here, until `forget`.

        Raises:
            OSError: the kernel follows no more.
        """
        number: int = transport.get_extra_info("socket").fileno()
        self._epoll.register(number, select.EPOLLRDHUP)
        self.expire()
        return number

    def forget(self, number: int) -> None:
        """Follow a connection no more; it is open still, or its number may be another one's."""
        with contextlib.suppress(OSError, ValueError):  # ValueError: nobody is followed any more
            self._epoll.unregister(number)

    def has_left(self, number: int) -> bool:
        """Tell whether the client has gone or ended its side.

        It may have done so while the last `ANSWERS_PER_LOOK` answers were written.
        """
        if not self._answers:
            self._look()
        self._answers -= 1
        return number in self._departed_numbers

    def close(self) -> None:
        """Follow nobody any more: all connections are closed, and none is asked about."""
        self._epoll.close()

    def expire(self) -> None:
        """Look anew before the next answer."""
        self._answers = 0

    def _look(self) -> None:
        found = self._epoll.poll(0, self._most)
        while len(found) == self._most:
            self._most *= 2
            found = self._epoll.poll(0, self._most)
        self._departed_numbers = frozenset(number for number, _ in found)
        self._answers = ANSWERS_PER_LOOK
        self._loop.call_soon(self.expire)
