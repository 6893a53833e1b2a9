"""Offers writes at a fixed rate, each of its own key, and looks how they arrive elsewhere."""

from __future__ import annotations

import base64
import contextlib
import itertools
import random
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.load.wrk import CONNECTIONS, VALUE_BYTES
from bench.processes import HOST, BenchError, ask
from bench.servers.members import MAP, get_request, post_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TICK_S: Final = 0.005
LOOK_PERIOD_S: Final = 0.02
PATIENCE_S: Final = 30.0
_REQUEST: Final = (
    f"POST /grid/rest/maps/{MAP}/%d HTTP/1.1\r\nHost: bench\r\n"
    f"Content-Length: {VALUE_BYTES}\r\n\r\n%b"
).encode()
_DONE: Final = b"HTTP/1.1 200"
_LOOK_AGAIN_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Paced:
    """What became of writes at a fixed rate.

    Attributes:
        answered: how many writes were answered in the time that passed, with success.
        looked: what was asked for again and again meanwhile, with the seconds since the begin.
    """

    answered: int
    seconds: float
    looked: tuple[tuple[float, int], ...]

    @property
    def rate(self) -> float:
        return self.answered / self.seconds


def request(key: int, chance: random.Random) -> bytes:
    """Return a write of a value that deflates badly."""
    value = base64.b64encode(chance.randbytes(VALUE_BYTES))[:VALUE_BYTES]
    return _REQUEST % (key, value)


class Pacer:
    """Connections that share writes out, to one member or to several."""

    def __init__(self, *ports: int) -> None:
        turns = itertools.islice(itertools.cycle(ports), CONNECTIONS)
        self._sockets = [socket.create_connection((HOST, port), PATIENCE_S) for port in turns]
        self._rests = dict.fromkeys(self._sockets, b"")
        self.next_key = 0

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def offer(self, rate: float, seconds: float, look: Callable[[], int] = lambda: 0) -> Paced:
        """Offer so many writes a second for so long; what is late is offered as soon as it can be.

        Raises:
            BenchError: one of them was refused.
        """
        chance, first = random.Random(self.next_key), self.next_key
        self.next_key += int(rate * seconds)
        before = [request(key, chance) for key in range(first, self.next_key)]
        looked: list[tuple[float, int]] = []
        began = time.monotonic()
        ended = threading.Event()
        watching = threading.Thread(target=_watch, args=(look, looked, began, ended))
        watching.start()
        try:
            answered = self._offer(before, rate, began)
        finally:
            ended.set()
            watching.join()
        return Paced(answered, time.monotonic() - began, tuple(looked))

    def _offer(self, writes: Sequence[bytes], rate: float, began: float) -> int:
        sent = answered = turn = 0
        while answered < len(writes):
            due = min(len(writes), int(rate * (time.monotonic() - began)))
            share = max(1, -(-(due - sent) // len(self._sockets)))
            while sent < due:
                part = writes[sent : min(due, sent + share)]
                self._sockets[turn % len(self._sockets)].sendall(b"".join(part))
                turn += 1
                sent += len(part)
            next_due = began + (sent + 1) / rate + TICK_S
            answered += self._read(max(next_due, time.monotonic() + TICK_S))
        return answered

    def _read(self, until: float) -> int:
        """Count the answers that come until then."""
        answered = 0
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(self._sockets, (), (), left)
            for each in ready:
                answered += self._count(each)
        return answered

    def _count(self, connection: socket.socket) -> int:
        chunk = connection.recv(1 << 16)
        text = self._rests[connection] + chunk
        if not chunk or b"HTTP/1.1 4" in text or b"HTTP/1.1 5" in text:
            raise BenchError("a write was refused")
        self._rests[connection] = text[-(len(_DONE) - 1) :]
        return text.count(_DONE)


@contextlib.contextmanager
def pacing(*ports: int) -> Iterator[Pacer]:
    """Open connections to members, and close them."""
    pacer = Pacer(*ports)
    try:
        yield pacer
    finally:
        pacer.close()


def _watch(
    look: Callable[[], int],
    looked: list[tuple[float, int]],
    began: float,
    ended: threading.Event,
) -> None:
    while not ended.wait(LOOK_PERIOD_S):
        looked.append((time.monotonic() - began, look()))


class Prober:
    """Puts a key here and waits until it can be read there, again and again."""

    def __init__(self, source: int, target: int) -> None:
        self._ports = source, target
        self._number = 0
        self.lags_ms: list[float] = []

    def look(self) -> int:
        """Note the lag of one key; return how many were noted."""
        source, target = self._ports
        self._number += 1
        key, value = f"probe-{self._number}", b"%d" % self._number
        answer = ask(source, post_request(key, value))
        if not answer.startswith(_DONE):
            raise BenchError("a write was refused")
        began = time.monotonic()
        while not ask(target, get_request(key)).startswith(_DONE):
            if time.monotonic() > began + PATIENCE_S:
                raise BenchError("a change did not arrive")
            time.sleep(_LOOK_AGAIN_S)
        self.lags_ms.append(1e3 * (time.monotonic() - began))
        return len(self.lags_ms)
