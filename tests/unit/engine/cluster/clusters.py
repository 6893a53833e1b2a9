"""Several members in one event loop, each with a real nats-server, and lines that can be cut.

Every line between two servers goes through a forwarder of the test: a cut closes its connections
and takes no new ones, as a firewall that answers. Servers tell each other where they listen; here
that is an address nobody has, or they would find ways around the lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from typing import TYPE_CHECKING, Self
from unittest import mock

from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.nats.admin.streams import ask
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shards import CLUSTER_SHARDS, ReplicatedShards
from grid_member.engine.server import process as server_module
from grid_member.engine.server.config import server_config
from tests.unit.engine.drive import Driver, FixedStructures
from tests.unit.ports import free_ports
from tests.unit.serving import close_server

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.server.config import ServerPlaces

HOST = "127.0.0.1"
START_S = 80
"""Nine members that start at once may take half of it on a machine that is busy."""


def secluded_config(settings: ClusterSettings, server_name: str, places: ServerPlaces) -> str:
    """Return the configuration of a server that nobody finds but over its lines."""
    text = server_config(settings, server_name, places)
    former = "  no_advertise: true"
    assert former in text
    return text.replace(former, f'{former}\n  advertise: "{HOST}:1"')


class Line:
    """A way from one server to another."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._cut = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()

    def heal(self) -> None:
        self._cut = False

    async def close(self) -> None:
        self.cut()
        if self._server is not None:
            await close_server(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        self._writers -= {writer, far_writer}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


class Cluster:
    """Members that know each other."""

    def __init__(
        self,
        size: int,
        directory: Path | None = None,
        *,
        engine: type[ClusterEngine] = ClusterEngine,
        structures: FixedStructures | None = None,
        lite: tuple[int, ...] = (),
        backup_count: int = 1,
    ) -> None:
        self.size = size
        self._lite = lite
        self._backup_count = backup_count
        self.engines: list[ClusterEngine] = []
        self.drivers: list[Driver] = []
        self.structures = structures or FixedStructures()
        self._directory = directory
        self._engine = engine
        self._ports = free_ports(size)
        self._lines: dict[tuple[int, int], Line] = {}
        self._secluded = mock.patch.object(server_module, "server_config", secluded_config)

    async def __aenter__(self) -> Self:
        for near in range(self.size):
            for far in range(self.size):
                if near != far:
                    line = Line(self._ports[far])
                    await line.open()
                    self._lines[near, far] = line
        self._secluded.start()
        try:
            await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._secluded.stop()
        await self.stop()
        for line in self._lines.values():
            await line.close()

    async def start(self) -> None:
        """Start all members, which hold what they held before if there are directories."""
        self.engines = [self.made(number) for number in range(self.size)]
        self.drivers = [Driver(engine) for engine in self.engines]
        await asyncio.wait_for(asyncio.gather(*(one.start() for one in self.engines)), START_S)

    async def stop(self) -> None:
        await asyncio.gather(*(engine.stop() for engine in self.engines))

    async def restart(self, number: int) -> None:
        """Start a member that was stopped as a new process would."""
        self.engines[number] = engine = self.made(number)
        self.drivers[number] = Driver(engine)
        await asyncio.wait_for(engine.start(), START_S)

    def made(self, number: int, *, durable: bool = True) -> ClusterEngine:
        members = tuple(
            (HOST, self._ports[far] if far == number else self._lines[number, far].port)
            for far in range(self.size)
        )
        place = self._directory if durable else None
        directory = None if place is None else place / f"m{number}"
        settings = ClusterSettings(
            cluster_name="dev",
            member_name=f"m{number}",
            port=self._ports[number],
            members=members,
            user="grid",
            password="shown-to-the-others",
            host=HOST,
            lite=number in self._lite,
            backup_count=self._backup_count,
            directory=directory,
        )
        engine = PartEngine if settings.crowded or settings.lite else self._engine
        return engine(self.structures, ReplicatedShards(settings), wall_clock_ms)

    def shard_of(self, map_name: str) -> int:
        """Return the number of the shard that a map is in."""
        shard = zlib.crc32(map_name.encode()) % CLUSTER_SHARDS
        assert shard < max(len(engine.shards) for engine in self.engines)
        return shard

    async def leader_of(self, map_name: str) -> int:
        """Return the member whose server leads the stream of a map."""
        shard = self.shard_of(map_name)
        client = self.engines[0].client
        info = await ask(client, f"STREAM.INFO.shard-{shard}")
        names = [engine.server_name for engine in self.engines]
        return names.index(info["cluster"]["leader"])

    def isolate(self, number: int) -> None:
        """Cut a member with its server off from all others."""
        for (near, far), line in self._lines.items():
            if number in (near, far):
                line.cut()

    def part(self, one: int, other: int) -> None:
        """Cut the lines between two members."""
        self._lines[one, other].cut()
        self._lines[other, one].cut()

    def heal(self) -> None:
        for line in self._lines.values():
            line.heal()
