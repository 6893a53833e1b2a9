"""Two members in this process, each the whole of a cluster, that replicate to each other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from grid_member import Config
from grid_member.engine.api import Entry
from grid_member.engine.local.engine import LocalEngine
from grid_member.engine.wan.agreement import (
    PublisherName,
    PublisherState,
)
from grid_member.start.handle import MemberHandle
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.wan.figures import PublisherFigures, WanFigures

PATIENCE_S: Final = 20.0
LOOPBACK: Final = {"enabled": True, "interfaces": ["127.0.0.1"]}
MAPS: Final = ("orders", "people")


@dataclass
class Site:
    """One cluster: how it is configured, and its member while it runs."""

    name: str
    port: int
    """Of its WAN listener."""
    peer: str
    peer_port: int
    user_password: str = "shown"
    """What its realm asks for."""
    shows: str = "shown"
    """What its publisher shows."""
    directory: Path | None = None
    publisher: dict[str, Any] = field(default_factory=dict)
    listener: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    map_more: dict[str, dict[str, Any]] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    """Maps that it has no configuration of."""
    metrics: bool = False
    publishes: bool = True
    handle: MemberHandle | None = None

    def tree(self) -> dict[str, Any]:
        user = {"username": "peer", "password": self.user_password}
        shown = {"username": "peer", "password": self.shows}
        wan = {"enabled": True, "port": {"port": self.port}, "realm": "wan"}
        publisher = {
            "cluster-name": self.peer,
            "target-endpoints": f"127.0.0.1:{self.peer_port}",
            "realm": "to-peer",
            "response-timeout-millis": 2000,
        } | self.publisher
        made: dict[str, Any] = {
            "cluster-name": self.name,
            "network": {
                "port": {"port": 0, "auto-increment": False},
                "interfaces": LOOPBACK,
                "rest-api": {"enabled": True, "endpoint-groups": {"DATA": {"enabled": True}}},
                "wan": _written(wan | self.listener),
            },
            "security": {
                "realms": [
                    {"name": "wan", "authentication": {"simple": {"users": [user]}}},
                    {"name": "to-peer", "identity": {"username-password": shown}},
                ]
            },
            "wan-replication": {
                "peer-rep": {"batch-publisher": {"peer": _written(publisher | self.publisher)}}
            },
            "map": {"plain": {}} | {name: self._map(name) for name in self.maps},
        }
        if not self.publishes:
            del made["wan-replication"]
        if self.metrics:
            made["metrics"] = {"enabled": True, "port": {"port": 0}, "interfaces": LOOPBACK}
        if self.directory is not None:
            made["persistence"] = {"enabled": True, "base-dir": str(self.directory)}
        return made | self.more

    @property
    def maps(self) -> list[str]:
        return [name for name in MAPS if name not in self.lacks]

    def _map(self, name: str) -> dict[str, Any]:
        reference: dict[str, Any] = (
            {"wan-replication-ref": {"peer-rep": {}}} if self.publishes else {}
        )
        return reference | self.map_more.get(name, {})

    async def start(self) -> None:
        self.handle = MemberHandle(Config(self.tree(), environment={}))
        await self.handle.start()
        await until(self._agreed, "the member agrees with itself")

    async def stop(self) -> None:
        if self.handle is not None:
            await self.handle.stop()
            self.handle = None

    @property
    def engine(self) -> LocalEngine:
        assert self.handle is not None
        engine = self.handle._member.engine
        assert isinstance(engine, LocalEngine)
        return engine

    @property
    def wan(self) -> Any:
        assert self.handle is not None
        return self.handle._wan

    @property
    def cluster_id(self) -> bytes:
        agreement = self.engine.shards[0].state.wan.agreement
        assert agreement is not None
        return agreement.cluster_id

    def _agreed(self) -> bool:
        return all(shard.state.wan.agreement is not None for shard in self.engine.shards)

    async def set_state(self, state: PublisherState) -> None:
        assert self.handle is not None
        part: Any = self.handle._member.management.wan
        assert await part.calls.set_state(PublisherName("peer-rep", "peer"), state) is None

    async def put(self, name: str, key: str, value: bytes) -> None:
        await outcome(lambda done: self.engine.map_put(name, key, value, "text/plain", done))

    async def remove(self, name: str, key: str) -> None:
        await outcome(lambda done: self.engine.map_remove(name, key, done))

    async def clear(self, name: str) -> None:
        await outcome(lambda done: self.engine.map_clear(name, done))

    async def get(self, name: str, key: str) -> bytes | None:
        entry = await outcome(lambda done: self.engine.map_get(name, key, done))
        assert entry is None or isinstance(entry, Entry)
        return None if entry is None else entry.value

    @property
    def figures(self) -> PublisherFigures:
        figures: WanFigures = self.wan.figures
        return figures.publisher(PublisherName("peer-rep", "peer"))

    async def scrape(self) -> dict[str, float]:
        assert self.handle is not None
        assert self.handle.metrics_port is not None
        async with await Wire.connect(self.handle.metrics_port) as wire:
            wire.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            lines = (await wire.reply()).body.decode().splitlines()
        samples = [line.rpartition(" ") for line in lines if line.startswith("grid_wan")]
        return {_sorted_labels(name): float(value) for name, _, value in samples}

    def queued(self) -> int:
        publisher = PublisherName("peer-rep", "peer")
        return sum(
            sum(shard.state.wan.queue_sizes(publisher).values()) for shard in self.engine.shards
        )


def _sorted_labels(series: str) -> str:
    name, brace, labels = series.rstrip("}").partition("{")
    return f"{name}{{{','.join(sorted(labels.split(',')))}}}" if brace else name


def _written(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings but for those that are None."""
    return {name: value for name, value in settings.items() if value is not None}


async def outcome(begin: Callable[[Callable[[Any], None]], object]) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    begin(future.set_result)
    return await asyncio.wait_for(future, PATIENCE_S)


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition, which may be a coroutine function, holds."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        holds = condition()
        if asyncio.iscoroutine(holds):
            holds = await holds
        if holds:
            return
        assert asyncio.get_running_loop().time() < deadline_s, f"never: {what}"
        await asyncio.sleep(0.005)


def _is_connected(site: Site) -> bool:
    return site.figures.connected


async def start_both(*sites: Site) -> None:
    """Start clusters and wait until each has reached its target."""
    for site in sites:
        await site.start()
    for site in sites:
        await until(partial(_is_connected, site), f"{site.name} is connected")


async def until_value(site: Site, name: str, key: str, value: bytes | None) -> None:
    async def is_there() -> bool:
        return await site.get(name, key) == value

    await until(is_there, f"{key} is {value!r} at {site.name}")


async def until_quiet(*sites: Site) -> None:
    await until(lambda: not any(site.queued() for site in sites), "all is acknowledged")
