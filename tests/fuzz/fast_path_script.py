"""Scripts for a fast path connection: what the client sends, with commands in between.

A command is the byte 0xFF and a letter. So a script can be read, and every place in a request can
get a split, an answer or an end by one insertion.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from grid_member.cluster.member.member import Member, Phase
from grid_member.config import Config
from grid_member.config.model.member import Limits
from grid_member.engine.api import Reason, Refused
from grid_member.http.fastpath.connection import FastPathConnection
from grid_member.http.fastpath.context import FastPathContext
from grid_member.http.wire.receipts import Receipts
from grid_member.http.wire.uploads import Uploads
from grid_member.http.wire.watch import Watch
from grid_member.telemetry.measurements import Measurements
from tests.fuzz.fast_path_engine import BIG_BYTES, ScriptedEngine
from tests.fuzz.fast_path_wire import Loop, Sockets, Successor, Transport
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Engine
    from grid_member.http.wire.connection import ConnectionProtocol

LIMITS: Final = Limits(name_bytes=24, key_bytes=48, value_bytes=100_000, header_bytes=512)
CONFIG: Final = replace(Config.default(environment={}).model, limits=LIMITS)
UPLOADS_BYTES: Final = 200_000
MAX_SPLITS: Final = 2_000
_HOST: Final = b" HTTP/1.1\r\nHost: a\r\n"
_BIG_PUT: Final = (
    b"POST /grid/rest/maps/m/p"
    + _HOST
    + b"Content-Type: a/b\r\nContent-Length: %d\r\n\r\n%b" % (BIG_BYTES, b"p" * BIG_BYTES)
)


class Run:
    """One connection from its beginning to its end."""

    def __init__(self, sockets: Sockets, *, measured: bool = False) -> None:
        self.loop = Loop()
        self.engine = ScriptedEngine()
        self.member = Member(CONFIG, cast("Engine", self.engine), "fuzzed", "1")
        self.member.phase = Phase.RUNNING
        self.member.measurements = Measurements() if measured else None
        self.watch = Watch()
        self.successor = Successor()
        self.uploads = Uploads(UPLOADS_BYTES)
        asyncio._set_running_loop(cast("asyncio.AbstractEventLoop", self.loop))
        shared = self.watch, self.uploads, self._complete, Receipts(60)
        self.context = FastPathContext(self.member, *shared)
        self.fast_path = FastPathConnection(self.context)
        self.watch.add(self.fast_path)
        self.transport = Transport(self.loop, sockets)
        self.transport.fast_path = self.fast_path
        self.transport.protocol = cast("asyncio.Protocol", self.fast_path)
        self.engine.can_confirm = lambda: self.transport.buffered == 0 and not self.transport.lost
        self.received = bytearray()
        self.inbox = bytearray()
        self.used: set[int] = set()
        self.ended = False
        self.eof_told = False
        self._finishing: Any = None
        self.fast_path.connection_made(self.transport)

    def _complete(self) -> ConnectionProtocol:
        return cast("ConnectionProtocol", self.successor)

    @property
    def handed_over(self) -> bool:
        return self.transport.fast_path is None

    def play(self, script: bytes) -> None:
        """Send the bytes and carry out the commands of a script."""
        splits = 0
        for index, piece in enumerate(script.split(b"\xff")):
            if not index:
                self.inbox += piece
                continue
            command = piece[:1]
            self.used.update(command)
            splits += 1
            if splits > MAX_SPLITS:
                break
            if command in INBOX:
                self.inbox += INBOX[command]
            else:
                # A command comes after what was sent before it.
                self.deliver()
                COMMANDS.get(command, Run.deliver)(self)
                self.deliver()
            self.inbox += piece[1:]
        self.deliver()

    def deliver(self) -> None:
        """Bring what the client sent, as far as it is read."""
        self.loop.turn()
        transport = self.transport
        while self.inbox and transport.reading and not transport.closing and not self.eof_told:
            data = bytes(self.inbox)
            self.inbox.clear()
            self.received += data
            self._protocol.data_received(data)
            self.loop.turn()
        heard = not self.inbox and transport.reading and not transport.closing
        if self.ended and not self.eof_told and heard:
            self.eof_told = True
            if not self._protocol.eof_received():
                transport.close()
        self.loop.turn()

    @property
    def _protocol(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", self.transport.get_protocol())

    # Commands

    def tell_first(self) -> None:
        self.engine.tell(slice(0, 1))

    def tell_last(self) -> None:
        self.engine.tell(slice(-1, None))

    def tell_all(self) -> None:
        self.engine.tell(slice(None))

    def later(self) -> None:
        self.engine.at_once = False

    def at_once(self) -> None:
        self.engine.at_once = True

    def refuse(self) -> None:
        self.engine.refusal = Refused(Reason.PASSIVE, "no writes")

    def overload(self) -> None:
        self.engine.refusal = Refused(Reason.OVERLOADED, "too many")

    def fail(self) -> None:
        self.engine.fails = True

    def offer(self) -> None:
        self.engine.put("q", b"item", "a/b")

    def end_polls(self) -> None:
        self.engine.end_polls()

    def fill(self) -> None:
        self.transport.full = True

    def drain(self) -> None:
        self.transport.drain()

    def end(self) -> None:
        self.ended = True

    def leave(self) -> None:
        self.transport.client_left = True

    def lose(self) -> None:
        self.transport.lose(ConnectionResetError())

    def stop(self) -> None:
        self.member.request_stop()

    def stop_soon(self) -> None:
        self.member.ending = True

    def park(self) -> None:
        self.member.phase = Phase.PARKED

    def finish(self) -> None:
        if self._finishing is None:
            self._finishing = self.fast_path.finish()
            # It has no more to do by itself than to wait for the connection's end.
            with contextlib.suppress(StopIteration):
                self._finishing.send(None)

    def no_uploads(self) -> None:
        self.uploads.limit_bytes = 0

    def second(self) -> None:
        self._wait(1)

    def minute(self) -> None:
        self._wait(61)

    def hours(self) -> None:
        self._wait(7200)

    def _wait(self, seconds: float) -> None:
        self.loop.now_s += seconds
        if self.fast_path in list(self.watch):
            self.fast_path.look(self.loop.now_s)

    # The end

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        for _ in range(10_000):
            self.transport.drain()
            self.engine.tell(slice(None))
            self.deliver()
            over = not self.inbox or self.transport.closing or self.eof_told
            if over and all(call.told or call.cancelled for call in self.engine.calls):
                return
            self.engine.end_polls()
        raise FindingError("it does not come to an end")

    def close(self) -> None:
        """End the connection."""
        self.transport.lose(None)
        self.loop.turn()
        if self._finishing:
            self._finishing.close()
        asyncio._set_running_loop(None)


INBOX: Final = {
    b"z": _BIG_PUT,
    b"y": b"y" * 20_000,
    b"1": b"\xff",
    b"G": b"GET /grid/rest/maps/m/k" + _HOST + b"\r\n",
    b"J": b"GET /grid/rest/maps/b/k" + _HOST + b"\r\n",
    b"V": b"GET /grid/rest/maps/m/w" + _HOST + b"\r\n",
    b"H": b"GET /grid/rest/maps/m/big" + _HOST + b"\r\n",
    b"O": b"POST /grid/rest/queues/q" + _HOST + b"Content-Length: 1\r\n\r\no",
    b"D": b"DELETE /grid/rest/queues/q/9" + _HOST + b"\r\n",
    b"W": b"PUT /grid/rest/maps/m/w" + _HOST + b"Content-Length: 2\r\n\r\nw1",
}
COMMANDS: Final[dict[bytes, Callable[[Run], None]]] = {
    b"c": Run.tell_first,
    b"l": Run.tell_last,
    b"a": Run.tell_all,
    b"d": Run.later,
    b"m": Run.at_once,
    b"r": Run.refuse,
    b"o": Run.overload,
    b"E": Run.fail,
    b"q": Run.offer,
    b"w": Run.end_polls,
    b"p": Run.fill,
    b"R": Run.drain,
    b"e": Run.end,
    b"g": Run.leave,
    b"x": Run.lose,
    b"s": Run.stop,
    b"S": Run.stop_soon,
    b"k": Run.park,
    b"f": Run.finish,
    b"n": Run.no_uploads,
    b"t": Run.second,
    b"T": Run.minute,
    b"U": Run.hours,
}
