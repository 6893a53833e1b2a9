"""What is around a fast path connection: a transport that obeys, a clock that stands still."""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.http.fastpath.connection import FastPathConnection


class Loop:
    """As much of an event loop as a fast path connection uses; time passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self._soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()

    def time(self) -> float:
        """Return the time in seconds."""
        return self.now_s

    def get_debug(self) -> bool:
        """Tell futures to be quick."""
        return False

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def call_soon(self, callback: Callable[..., object], *args: object, **_: object) -> None:
        """Call back at the end of this turn."""
        self._soon.append((callback, args))

    def call_later(self, delay_s: float, *_: object) -> asyncio.TimerHandle:
        """Never call back: what goes by time is called by the script."""
        return asyncio.TimerHandle(self.now_s + delay_s, _nothing, (), self)  # type: ignore[arg-type]

    def turn(self) -> None:
        """Call back what is due."""
        while self._soon:
            callback, args = self._soon.popleft()
            callback(*args)


def _nothing() -> None:
    pass


class Sockets:
    """One that the client is at the other end of, and one that it has left."""

    def __init__(self) -> None:
        self._pairs = socket.socketpair(), socket.socketpair()
        self.open, self.left = self._pairs[0][0], self._pairs[1][0]
        self._pairs[1][1].shutdown(socket.SHUT_WR)
        weakref.finalize(self, _close, self._pairs)


def _close(pairs: tuple[tuple[socket.socket, socket.socket], ...]) -> None:
    for pair in pairs:
        for one in pair:
            one.close()


_EXTRA: Final = {"peername": ("127.0.0.1", 1)}


class Transport(asyncio.Transport):
    """Keeps what is written, and complains of calls that a real transport would not survive."""

    def __init__(self, loop: Loop, sockets: Sockets) -> None:
        super().__init__()
        self._loop = loop
        self._sockets = sockets
        self.protocol: asyncio.BaseProtocol | None = None
        self.fast_path: FastPathConnection | None = None
        """The one that may write: None when it handed over."""
        self.written = bytearray()
        self.buffered = 0
        self.full = False
        """Whether the kernel takes nothing."""
        self.writing_paused = False
        self.reading = True
        self.eof_written = False
        self.closing = False
        self.lost = False
        self.client_left = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the socket, or the client's address."""
        if name == "socket":
            return self._sockets.left if self.client_left else self._sockets.open
        return _EXTRA.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See that writing is paused as soon as anything is buffered."""
        if high != 0:
            raise FindingError("the write buffer has another limit")

    def get_write_buffer_size(self) -> int:
        """Return what the kernel has not taken."""
        return self.buffered

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Take another protocol."""
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        assert self.protocol is not None
        return self.protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes."""
        if self.fast_path is None:
            raise FindingError("something is written after the hand-over")
        if self.eof_written:
            raise FindingError("something is written after write_eof")
        if not data:
            return
        self._check()
        if self.closing:
            return
        self.written += data
        if self.full:
            self.buffered += len(data)
            if not self.writing_paused:
                self.writing_paused = True
                self._fast_path_or_protocol().pause_writing()

    def _check(self) -> None:
        if self.lost:
            raise FindingError("the transport is used after connection_lost")

    def _fast_path_or_protocol(self) -> asyncio.BaseProtocol:
        return self.get_protocol()

    def drain(self) -> None:
        """Let the kernel take everything from now on."""
        self.full = False
        self.buffered = 0
        if self.lost:
            return
        if self.writing_paused:
            self.writing_paused = False
            self.get_protocol().resume_writing()
        if self.closing:
            self._lose_soon(None)

    def can_write_eof(self) -> bool:
        """As a socket."""
        return True

    def write_eof(self) -> None:
        """Take the end."""
        self._check()
        self.eof_written = True

    def is_closing(self) -> bool:
        """Tell whether close was called, or the connection is gone."""
        return self.closing

    def pause_reading(self) -> None:
        """Bring no more bytes."""
        self._check()
        self.reading = False

    def resume_reading(self) -> None:
        """Bring bytes again, in the next turn."""
        self._check()
        self.reading = True

    def is_reading(self) -> bool:
        """Tell whether bytes are brought."""
        return self.reading and not self.closing

    def close(self) -> None:
        """Close when the kernel has everything."""
        if not self.closing:
            self.closing = True
            if not self.buffered:
                self._lose_soon(None)

    def abort(self) -> None:
        """Close now."""
        self.closing = True
        self.buffered = 0
        self._lose_soon(None)

    def _lose_soon(self, error: Exception | None) -> None:
        self._loop.call_soon(self.lose, error)

    def lose(self, error: Exception | None) -> None:
        """Tell the protocol that the connection is gone, once."""
        if not self.lost:
            self.closing = self.lost = True
            self.buffered = 0
            self.get_protocol().connection_lost(error)


class Successor(asyncio.Protocol):
    """Stands for aiohttp's connection after a hand-over."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.received = bytearray()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over."""
        if self.transport is not None:
            raise FindingError("handed over twice")
        assert isinstance(transport, Transport)
        self.transport = transport
        transport.fast_path = None
        if transport.writing_paused:
            raise FindingError("handed over while the kernel does not take everything")

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self.transport is None:
            raise FindingError("bytes before connection_made")
        self.received += data

    def eof_received(self) -> bool:
        """Take the end."""
        self.ended = True
        return True

    async def finish(self) -> None:
        """Have nothing to do."""

    def look(self, now_s: float) -> None:
        """Have nothing to look at."""

    def abort(self) -> None:
        """Have nothing to cut."""
