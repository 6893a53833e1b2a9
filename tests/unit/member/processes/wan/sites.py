"""Two clusters of several processes that replicate to each other."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.member.wire import Wire, once
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.wire import Reply

MAPS: Final = ("orders", "cities", "items")
"""Each is in another shard."""
_REALMS: Final = """  security:
    realms:
      - {name: wan, authentication: {simple: {users: [{username: peer, password: shown}]}}}
      - {name: to-peer, identity: {username-password: {username: peer, password: shown}}}
"""
_PUBLISHER: Final = """  wan-replication:
    rep: {{batch-publisher: {{peer: {{cluster-name: {peer}, realm: to-peer,
      target-endpoints: "{endpoints}"}}}}}}
"""


class Site(Members):
    """One of the clusters."""

    def __init__(self, name: str, directory: Path, *, most: int, **settings: Any) -> None:
        """Make no process yet; `most` members may run in the course of a test."""
        directory.mkdir()
        maps = "".join(f", {each}: {{wan-replication-ref: {{rep: {{}}}}}}" for each in MAPS)
        made: dict[str, Any] = {"durable": False, "maps": maps} | settings
        super().__init__(directory, most=most, **made)
        self.name = name
        self.wan_ports = free_ports(most)
        self.peer: Site | None = None

    def configuration(self, number: int) -> str:
        assert self.peer is not None
        endpoints = ",".join(f"127.0.0.1:{port}" for port in self.peer.wan_ports)
        listener = (
            f"    wan: {{enabled: true, realm: wan, port: {{port: {self.wan_ports[number]}}}}}"
        )
        text = super().configuration(number)
        text = text.replace("cluster-name: dev", f"cluster-name: {self.name}", 1)
        text = text.replace("    interfaces:", f"{listener}\n    interfaces:", 1)
        return text + _REALMS + _PUBLISHER.format(peer=self.peer.name, endpoints=endpoints)

    async def publisher(self, number: int) -> dict[str, Any]:
        """Return what a member tells of the publisher, empty while it cannot."""
        reply = await self.ask(number, "GET", "wan/status")
        if reply.status != 200:
            return {}
        found = json.loads(reply.body)["replications"]
        return found[0]["publishers"][0] if found else {}

    async def call(self, number: int, name: str, *parameters: str) -> Reply:
        body = "&".join((self.name, "", "rep", "peer", *parameters)).encode()
        return await self.ask(number, "POST", f"wan/{name}", body)

    async def put(self, number: int, name: str, key: str, value: bytes) -> None:
        reply = await self.ask(number, "POST", f"maps/{name}/{key}", value)
        assert reply.status == 200, reply

    async def get(self, number: int, name: str, key: str) -> bytes | None:
        reply = await self.ask(number, "GET", f"maps/{name}/{key}")
        assert reply.status in {200, 204}, reply
        return reply.body if reply.status == 200 else None

    async def remove(self, number: int, name: str, key: str) -> None:
        reply = await self.ask(number, "DELETE", f"maps/{name}/{key}")
        assert reply.status == 200, reply

    async def ask(self, number: int, method: str, path: str, body: bytes = b"") -> Reply:
        return await once(self.rest_ports[number], method, f"/grid/rest/{path}", body)

    async def quiet(self, number: int = 0) -> None:
        """Wait until nothing is queued."""

        async def is_empty() -> bool:
            return bool((await self.publisher(number)).get("queued", {}).get("all") == 0)

        await eventually(is_empty, 60)

    async def until_value(self, number: int, name: str, key: str, value: bytes | None) -> None:
        async def is_there() -> bool:
            return await self.get(number, name, key) == value

        await eventually(is_there, 30)

    async def safe(self) -> None:
        """Wait until every member that runs says that all copies are current.

        A member that has just left counts as a copy for some seconds yet.
        """
        async with HttpClient(self) as client:
            running = [n for n, each in self.processes.items() if each.process.poll() is None]
            await eventually(lambda: client.safe(*running))

    async def connected(self, number: int = 0) -> None:
        """Wait until the publisher has reached its target."""

        async def is_connected() -> bool:
            return bool((await self.publisher(number)).get("connected"))

        await eventually(is_connected, 60)


def pair(directory: Path, tokyo: dict[str, Any], london: dict[str, Any]) -> tuple[Site, Site]:
    """Return two clusters that publish to each other."""
    sites = (
        Site("tokyo", directory / "tokyo", **tokyo),
        Site("london", directory / "london", **london),
    )
    sites[0].peer, sites[1].peer = sites[1], sites[0]
    return sites


async def start(*sites: Site) -> None:
    """Start clusters, and wait until each has reached the other."""
    await asyncio.gather(*(site.__aenter__() for site in sites))
    for site in sites:
        await site.connected()


async def job(site: Site, number: int, call: str, *maps: str) -> dict[str, dict[str, Any]]:
    """Have a member begin a job, and return what it found in each map."""
    reply = await site.call(number, call, *maps)
    assert reply.status == 200, reply
    kind = "lastChecks" if call.startswith("consistencyCheck") else "lastSyncs"

    async def of_job() -> dict[str, dict[str, Any]]:
        results = (await site.publisher(number)).get(kind, [])
        return {each["map"]: each for each in results if each["uuid"] == reply.json["uuid"]}

    return await eventually(of_job, 60)


async def entries(site: Site, number: int, name: str, keys: list[str]) -> dict[str, bytes | None]:
    """Return what a member has of keys of a map."""
    async with await Wire.connect(site.rest_ports[number]) as wire:
        replies = [await wire.call("GET", f"/grid/rest/maps/{name}/{key}") for key in keys]
    values = [reply.body if reply.status == 200 else None for reply in replies]
    return dict(zip(keys, values, strict=True))
