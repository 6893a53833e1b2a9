"""A lite member and hosts over one engine, on a bus whose messages a test may lose."""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any, Self

from grid_member.engine.forward.client import ForwardClient
from grid_member.engine.forward.messages import Frame, FrameKind
from grid_member.engine.forward.server import ForwardServer
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.local.engine import LocalEngine
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.shard.shards import Shards
from tests.unit.engine.drive import Driver, FixedStructures, awaited
from tests.unit.engine.forward.bus import Bus, Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done, Entry, Item, Refused


class HeldEngine(LocalEngine):
    """An engine that a majority stands behind, or not."""

    in_contact = answering = leased = True
    leased_until_s = math.inf


class Parties:
    """One lite member and hosts; `async with` starts all of them."""

    def __init__(self, hosts: int = 1) -> None:
        self.bus = Bus()
        shards = Shards(None, 2, wall_clock_ms, LmdbLog)
        self.engine = HeldEngine(FixedStructures(), shards, wall_clock_ms)
        self.data = Driver(self.engine)
        self.connections = [Connection(self.bus) for _ in range(hosts)]
        """Of the hosts."""
        self.of_lite = Connection(self.bus)

    async def __aenter__(self) -> Self:
        await self.engine.start()
        self.hosts = [
            ForwardServer(connection.client, self.engine, uuid.uuid4().bytes)
            for connection in self.connections
        ]
        self.hosts[0].start()
        self.lite = ForwardClient(self.of_lite.client)
        self.lite.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.bus.lose = lambda subject: False
        self.lite.hurry()
        await self.lite.stop()
        await self.engine.stop()
        for host in self.hosts:
            host.end()

    def replace_host(self, number: int) -> None:
        """Let another host listen in place of all that did; the inboxes stay."""
        self.silence()
        self.hosts[number].start()

    def silence(self) -> None:
        """End the hosts as a crash would."""
        self.bus.listeners = [
            one for one in self.bus.listeners if not one.subject.startswith(b"grid.")
        ]

    async def put(self, name: str, key: str, value: bytes) -> Refused | None:
        return await awaited(self.asking(Frame(FrameKind.MAP_PUT, 0, name, key, value)))

    async def get(self, name: str, key: str) -> Entry | Refused | None:
        return await awaited(self.asking(Frame(FrameKind.MAP_GET, 0, name, key)))

    async def offer(self, name: str, value: bytes) -> bool | Refused:
        return await awaited(self.asking(Frame(FrameKind.QUEUE_OFFER, 0, name, "", value)))

    async def poll(self, name: str, timeout_s: float = 0.0) -> Item | Refused | None:
        frame = Frame(FrameKind.QUEUE_POLL, 0, name, number=int(timeout_s * 1000))
        return await awaited(self.asking(frame, timeout_s))

    def asking(self, frame: Frame, timeout_s: float = 0.0) -> Callable[[Done[Any]], None]:
        def ask(done: Done[Any]) -> None:
            self.lite.call(frame, done, timeout_s)

        return ask
