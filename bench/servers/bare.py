"""The least that a server can do under asyncio: what a member's cost is held against.

    python -m bench.servers.bare PORT constant|drain < the answer to give

`constant` answers each read with the same bytes, `drain` each body of --body-bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from bench.processes import HOST, Server, free_port, running
from grid_member.command.event_loop import loop_maker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from bench.processes import Running

_BACKLOG: Final = 2048
_READY: Final = "ready"


class Constant(asyncio.Protocol):
    """Takes whatever is read at once for a request."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


class Drain(Constant):
    """Answers when a body has been read; keeps nothing of it. A GET is answered at once."""

    def __init__(self, answer: bytes, body_bytes: int) -> None:
        super().__init__(answer)
        self._body_bytes = body_bytes
        self._missing = 0

    def data_received(self, data: bytes) -> None:
        if self._missing == 0:
            head = data.index(b"\r\n\r\n") + 4
            self._missing = head + (self._body_bytes if data.startswith(b"POST") else 0)
        self._missing -= len(data)
        if self._missing == 0:
            self._transport.write(self._answer)


def _run(serving: Coroutine[object, object, None]) -> None:
    """Run it on the event loop that a member's process has."""
    with asyncio.Runner(loop_factory=loop_maker("auto")) as runner:
        runner.run(serving)


async def serve(port: int, make: Callable[[], asyncio.Protocol]) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind((HOST, port))
    server = await loop.create_server(make, sock=listening, backlog=_BACKLOG)
    print(_READY, flush=True)
    await stopped.wait()
    server.close()


def _is_ready(server: Running) -> bool:
    return _READY in server.last_words()


@contextlib.contextmanager
def bare(answer: bytes, *, body_bytes: int = 0, processes: int = 1) -> Iterator[Server]:
    """Run a bare server that gives this answer; several processes share its port."""
    port = free_port()
    kind = ["drain", "--body-bytes", str(body_bytes)] if body_bytes else ["constant"]
    command = [sys.executable, "-m", "bench.servers.bare", str(port), *kind]
    with contextlib.ExitStack() as stack:
        pids = []
        for _ in range(processes):
            server = stack.enter_context(running(command, answer))
            server.wait_until(partial(_is_ready, server))
            pids.append(server.process.pid)
        yield Server(tuple(pids), port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("kind", choices=["constant", "drain"])
    parser.add_argument("--body-bytes", type=int, default=0)
    options = parser.parse_args()
    answer = sys.stdin.buffer.read()
    if options.kind == "constant":
        _run(serve(options.port, lambda: Constant(answer)))
    else:
        _run(serve(options.port, lambda: Drain(answer, options.body_bytes)))


if __name__ == "__main__":
    main()
