"""A proxy between two clusters that cuts, delays, halves, doubles and spoils what it carries.

Bytes are what it knows: a request may be cut anywhere, in its head as well. Connections are carried
each by itself, so what is late on one is overtaken on another.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import random

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16
LATE_S: Final = (0.05, 1.0)
AGAIN_S: Final = (0.05, 1.5)


class Weather(NamedTuple):
    """How often what befalls a chunk of bytes."""

    cut: float = 0.0
    late: float = 0.0
    halved: float = 0.0
    doubled: float = 0.0
    """All that the connection has carried comes again on another one, perhaps much later."""
    spoiled: float = 0.0
    unanswered: float = 0.0


CALM: Final = Weather()
BAD: Final = (
    Weather(cut=0.3, unanswered=0.3),
    Weather(late=0.5),
    Weather(doubled=0.5),
    Weather(spoiled=0.4),
    Weather(halved=0.4),
    Weather(cut=0.1, late=0.2, halved=0.1, doubled=0.2, spoiled=0.1, unanswered=0.2),
)


class BadLine:
    """Listens in place of a target."""

    def __init__(self, chance: random.Random) -> None:
        self.weather = CALM
        self.is_cut = False
        self.port = 0
        self._target_port = 0
        self._chance = chance
        self._under_way: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, port: int, target_port: int) -> None:
        """Listen on one port for what is to reach another one."""
        self.port, self._target_port = port, target_port
        self._server = await asyncio.start_server(self._take, HOST, port)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    @property
    def repeats(self) -> bool:
        """Whether anything that was doubled has yet to come."""
        return any(task.get_name() == "again" for task in self._under_way)

    async def cut(self) -> None:
        """Break every connection; those that come are broken, too, until `is_cut` is False."""
        self.is_cut = True
        for task in list(self._under_way):
            task.cancel()

    def _begin(self, task: asyncio.Task[None]) -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(asyncio.create_task(self._carry(reader, writer)))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until an end of it closes."""
        far: asyncio.StreamWriter | None = None
        try:
            if self.is_cut:
                return
            answers, far = await asyncio.open_connection(HOST, self._target_port)
            there = asyncio.create_task(self._forth(reader, far))
            back = asyncio.create_task(self._back(answers, writer))
            try:
                await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        except OSError:
            return
        finally:
            for end in (writer, far):
                if end is not None:
                    end.transport.abort()

    async def _forth(self, reader: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        carried = b""
        while chunk := await reader.read(CHUNK_BYTES):
            chance, weather = self._chance, self.weather
            if chance.random() < weather.cut:
                return
            if chance.random() < weather.late:
                await asyncio.sleep(chance.uniform(*LATE_S))
            if chance.random() < weather.halved:
                far.write(chunk[: len(chunk) // 2])
                with contextlib.suppress(OSError):
                    await far.drain()
                return
            carried += chunk
            if chance.random() < weather.doubled:
                self._begin(asyncio.create_task(self._again(carried), name="again"))
            if chance.random() < weather.spoiled:
                place = chance.randrange(len(chunk))
                other = bytes((chunk[place] ^ chance.randrange(1, 256),))
                chunk = chunk[:place] + other + chunk[place + 1 :]
            far.write(chunk)
            await far.drain()

    async def _back(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await answers.read(CHUNK_BYTES):
            if self._chance.random() < self.weather.unanswered:
                return
            writer.write(chunk)
            await writer.drain()

    async def _again(self, carried: bytes) -> None:
        """Send what a connection has carried up to now, and hear no answer."""
        await asyncio.sleep(self._chance.uniform(*AGAIN_S))
        with contextlib.suppress(OSError):
            answers, far = await asyncio.open_connection(HOST, self._target_port)
            try:
                far.write(carried)
                await far.drain()
                async with asyncio.timeout(1.0):
                    while await answers.read(CHUNK_BYTES):
                        pass
            finally:
                far.transport.abort()
