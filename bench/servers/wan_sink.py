"""The sink that acknowledges at once what sources send: `python -m bench.servers.wan_sink PORT`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from aiohttp import web

from bench.processes import HOST, Server, answers, free_port, running
from grid_member.command.event_loop import loop_maker
from grid_member.wan.hello import TargetLimits, Welcome, read_hello, write_welcome
from grid_member.wan.link import CHANGES_PATH, HELLO_PATH
from grid_member.wan.protocol import CONTENT_TYPE, PROTOCOL, with_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMITS: Final = TargetLimits(1 << 16, 8 << 20, 16 << 20)
_ONE_MAP_TAKEN: Final = b"\0"


@contextlib.contextmanager
def sink() -> Iterator[Server]:
    """Run a target that answers each batch at once, and keeps nothing."""
    port = free_port()
    command = [sys.executable, "-m", "bench.servers.wan_sink", str(port)]
    with running(command) as server:
        server.wait_until(lambda: answers(port, b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"))
        yield Server((server.process.pid,), port)


class Sink:
    """Answers as a target that has taken everything, of one map."""

    def __init__(self) -> None:
        self._cluster_id = uuid4().bytes

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if request.path == CHANGES_PATH:
            taken = with_checksum(_ONE_MAP_TAKEN, body)
            return web.Response(body=taken, content_type=CONTENT_TYPE)
        if request.path != HELLO_PATH:
            return web.Response()
        name = read_hello(body).target_name
        welcome = Welcome(PROTOCOL, name, self._cluster_id, str(uuid4()), "0.2.0", _LIMITS)
        return web.Response(body=write_welcome(welcome), content_type="application/json")


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    runner = web.ServerRunner(web.Server(Sink().answer), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    await stopped.wait()
    await runner.cleanup()


def main() -> None:
    with asyncio.Runner(loop_factory=loop_maker("auto")) as runner:
        runner.run(_serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
