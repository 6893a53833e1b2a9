"""The engine of one of several members without HTTP: what a member's rates are held against.

    python -m bench.servers.bare_engine FILE PORT

Once it has joined the others it takes lines on the port, `POST IN_FLIGHT SECONDS` or `GET …`, keeps
so many operations in flight for so long, and answers with what was done, as JSON. Any other line is
answered with `HTTP/1.1 200`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.load.wrk import KEYS, VALUE_BYTES
from bench.processes import HOST
from bench.servers.members import MAP
from grid_member.cluster.management.structures import ConfiguredStructures
from grid_member.command.event_loop import loop_maker
from grid_member.config import Config
from grid_member.engine.api import Refused
from grid_member.start.cluster import clustered_engine

if TYPE_CHECKING:
    from grid_member.engine.replicated.engine import ClusterEngine

_KEYS: Final = [str(key) for key in range(KEYS)]
_VALUE: Final = b"v" * VALUE_BYTES
_AGAIN_S: Final = 0.01
"""Before an operation that was refused is followed by the next."""


class Driven(NamedTuple):
    """What was seen of one run."""

    answered: int
    refused: int
    seconds: float


class Drive:
    """Keeps a number of operations in flight: each answer begins the next one."""

    def __init__(self, engine: ClusterEngine, method: str) -> None:
        self._engine = engine
        self._begin = self._put if method == "POST" else self._get
        self._turn = self._answered = self._refused = self._in_flight = 0
        self._going = True
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def run(self, in_flight: int, seconds: float) -> Driven:
        """Go on for so long, and until all is answered."""
        began = self._loop.time()
        self._loop.call_later(seconds, self._end)
        self._in_flight = in_flight
        for _ in range(in_flight):
            self._begin()
        await self._over
        return Driven(self._answered, self._refused, self._loop.time() - began)

    def _end(self) -> None:
        self._going = False

    def _key(self) -> str:
        self._turn += 1
        return _KEYS[self._turn % KEYS]

    def _put(self) -> None:
        self._engine.map_put(MAP, self._key(), _VALUE, None, self._done)

    def _get(self) -> None:
        self._engine.map_get(MAP, self._key(), self._done)

    def _done(self, outcome: object) -> None:
        refused = isinstance(outcome, Refused)
        self._refused += refused
        self._answered += not refused
        if not self._going:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._over.set_result(None)
        elif refused:
            self._loop.call_later(_AGAIN_S, self._begin)
        else:
            self._begin()


async def serve(file: Path, port: int) -> None:
    """Join the others, then do what the lines say until the end is asked for."""
    model = Config.from_file(file).model
    assert model.cluster is not None
    name = model.instance_name or ""
    engine = clustered_engine(model, model.cluster, name, ConfiguredStructures(model))
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await engine.start()
    gc.freeze()  # as a member does

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, *numbers = (await reader.readline()).decode().split()
        if method in ("GET", "POST"):
            driven = await Drive(engine, method).run(int(numbers[0]), float(numbers[1]))
            writer.write(json.dumps(driven._asdict()).encode() + b"\n")
        else:
            writer.write(b"HTTP/1.1 200\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, HOST, port):
        await stopped.wait()
    await engine.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_maker("auto")) as runner:
        runner.run(serve(options.file, options.port))


if __name__ == "__main__":
    main()
