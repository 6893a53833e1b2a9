"""Puts entries and items into a member as fast as it takes them, each counted when answered."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import time
from typing import TYPE_CHECKING, Final

from bench.load.paced import request
from bench.processes import HOST, BenchError
from bench.servers.members import MAP, QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH: Final = 256
"""Requests that are sent on a connection before their answers are read."""
BATCH_BYTES: Final = 1 << 20
CONNECTIONS: Final = 2
"""While the answers of one are made, the requests of the other are."""
PATIENCE_S: Final = 60.0
_STATUS: Final = b"HTTP/1.1 "
_DONE: Final = b"HTTP/1.1 200"


def fill_map(
    port: int, first: int, count: int, value_bytes: int, until: float | None = None
) -> int:
    """Store entries whose keys are the numbers from the first on; return how many.

    `until` says by the monotonic clock when to stop even if there are fewer.
    """
    head = f"POST /grid/rest/maps/{MAP}/%d HTTP/1.1\r\nHost: bench\r\n"
    template = f"{head}Content-Length: {value_bytes}\r\n\r\n%0{value_bytes}d".encode()
    requests = (template % (key, key) for key in range(first, first + count))
    return _send(port, requests, _batch(value_bytes), until)


def fill_varied(port: int, first: int, count: int, seed: int) -> int:
    """Store entries as `fill_map` does, with values of 22 bytes that deflate badly."""
    chance = random.Random(seed)
    requests = (request(key, chance) for key in range(first, first + count))
    return _send(port, requests, BATCH, None)


def empty_map(port: int, first: int, count: int) -> int:
    """Remove entries whose keys are the numbers from the first on; return how many calls it took.

    An entry that is not there is removed as well: a map that is replicated remembers each of them.
    """
    template = f"DELETE /grid/rest/maps/{MAP}/%d HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    return _send(port, (template % key for key in range(first, first + count)), BATCH, None)


def fill_queue(port: int, count: int, value_bytes: int) -> int:
    """Offer so many items; return how many were taken."""
    head = f"POST /grid/rest/queues/{QUEUE} HTTP/1.1\r\nHost: bench\r\n"
    template = f"{head}Content-Length: {value_bytes}\r\n\r\n%0{value_bytes}d".encode()
    return _send(port, (template % item for item in range(count)), _batch(value_bytes), None)


def _batch(value_bytes: int) -> int:
    return max(1, min(BATCH, BATCH_BYTES // max(1, value_bytes)))


def _send(port: int, requests: Iterator[bytes], batch: int, until: float | None) -> int:
    answered = 0
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((HOST, port), PATIENCE_S))
            for _ in range(CONNECTIONS)
        ]
        waiting = [0] * CONNECTIONS
        for place in itertools.cycle(range(CONNECTIONS)):
            answered += _read(connections[place], waiting[place])
            late = until is not None and time.monotonic() > until
            chunk = [] if late else list(itertools.islice(requests, batch))
            waiting[place] = len(chunk)
            connections[place].sendall(b"".join(chunk))
            if not any(waiting):
                return answered
    raise AssertionError("a cycle does not end")


def _read(connection: socket.socket, count: int) -> int:
    """Read so many answers; return their number.

    Raises:
        BenchError: one of them was no success, or the connection was closed.
    """
    seen, rest = 0, b""
    while seen < count:
        chunk = connection.recv(1 << 18)
        if not chunk:
            raise BenchError("the member closed a connection while it was filled")
        text = rest + chunk
        done = text.count(_DONE)
        # The last bytes may be the beginning of a status line; none is counted twice.
        rest = text[-(len(_DONE) - 1) :]
        whole = text[: len(text) - len(_DONE) + len(_STATUS)]
        if whole.count(_STATUS) > done:
            raise BenchError("the member did not take an entry while it was filled")
        seen += done
    return seen
