"""Two `grid-member` processes, each a cluster, that replicate both ways."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.unit.member.processes.faults.bad_line import HOST, BadLine
from tests.unit.member.running import MemberProcess
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    import random
    from pathlib import Path

MAP: Final = "orders"
GROUPS: Final = ("DATA", "WAN", "CLUSTER_WRITE")
REQUEST_S: Final = 10.0
RETRY_S: Final = 0.05
START_S: Final = 90.0
"""On a machine that is busy with other things."""
OK: Final = 200
ABSENT: Final = 204
SHIM: Final = """
import pathlib, signal, time

place, at_s, at_ns = pathlib.Path(__file__).with_name("ahead"), time.time, time.time_ns
ahead_s = 0


def jump(number, frame):
    global ahead_s
    ahead_s = int(place.read_text())


time.time = lambda: at_s() + ahead_s
time.time_ns = lambda: at_ns() + ahead_s * 10**9
signal.signal(signal.SIGUSR1, jump)
"""
"""A clock that goes by a file, read at SIGUSR1."""


class SiteProcess:
    """The member of one cluster."""

    host: str = HOST
    """Where it listens."""
    inside: tuple[str, ...] = ()
    """What to put before a command that is to run there."""
    queue_capacity = 100_000
    max_clock_ahead_s = 60

    def __init__(self, name: str, peer: str, directory: Path, *, durable: bool) -> None:
        self.name = name
        self.peer = peer
        self.durable = durable
        self.asks = self.shows = "first"
        """Passwords: what its listener asks for, and what its publisher shows."""
        self.rest_port, self.wan_port = free_ports(2)
        self.directory = directory / name
        self._target = ""
        """Where its publisher goes."""
        self._process: MemberProcess | None = None
        self._session: aiohttp.ClientSession | None = None

    async def open_at(self, target: str) -> None:
        """Start the member, whose publisher goes there."""
        self._target = target
        self.directory.mkdir(exist_ok=True)
        shim = self.directory / "shim"
        shim.mkdir()
        (shim / "sitecustomize.py").write_text(SHIM, encoding="utf-8")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_S),
        )
        await self.start()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            await asyncio.to_thread(self._process.kill)

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def log(self) -> list[dict[str, Any]]:
        return [] if self._process is None else self._process.log

    async def start(self) -> None:
        paths = filter(None, (str(self.directory / "shim"), os.environ.get("PYTHONPATH")))
        # Behind what goes there: `sudo` would not hand it on.
        before = (*self.inside, "env", f"PYTHONPATH={os.pathsep.join(paths)}")
        text = json.dumps({"grid": self.tree()})
        process = await asyncio.to_thread(MemberProcess, text, self.directory, None, before=before)
        process.patience_s = START_S
        await asyncio.to_thread(process.wait_for, "ready")
        self._process = process

    async def kill(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        await asyncio.to_thread(process.kill)

    async def stop(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.end) == 0, process.log

    def signal(self, sent: signal.Signals) -> None:
        """Send the process a signal, if it runs."""
        if self._process is not None:
            self._process.process.send_signal(sent)

    def set_clock(self, ahead_s: int) -> None:
        """Turn the member's clock; one that is started later is right."""
        if self._process is not None:
            (self.directory / "shim" / "ahead").write_text(str(ahead_s), encoding="utf-8")
            self._process.process.send_signal(signal.SIGUSR1)

    async def put(self, key: str, value: str) -> bool:
        """Tell whether it was answered that the value is stored."""
        answer = await self.ask("POST", f"maps/{MAP}/{key}", value)
        return answer is not None and answer[0] == OK

    async def remove(self, key: str) -> bool:
        answer = await self.ask("DELETE", f"maps/{MAP}/{key}")
        return answer is not None and answer[0] in {OK, ABSENT}

    async def peek(self, key: str) -> str | None:
        """Return the value of a key, None when there is none or no answer."""
        found = await self.ask("GET", f"maps/{MAP}/{key}")
        return found[1] if found is not None and found[0] == OK else None

    async def get(self, key: str) -> str | None:
        """Return the value of a key, None when there is none."""

        async def answered() -> tuple[int, str] | None:
            found = await self.ask("GET", f"maps/{MAP}/{key}")
            return found if found is not None and found[0] in {OK, ABSENT} else None

        status, text = await eventually(answered)
        return text if status == OK else None

    async def publisher(self) -> dict[str, Any]:
        """Return what the member tells of its publisher; nothing when it does not now."""
        found = await self.ask("GET", "wan/status")
        if found is None or found[0] != OK:
            return {}
        replications = json.loads(found[1])["replications"]
        publisher: dict[str, Any] = replications[0]["publishers"][0] if replications else {}
        return publisher

    async def tell(self, call: str) -> None:
        """Make a call about the publisher, until it is done."""

        async def done() -> bool:
            found = await self.ask("POST", f"wan/{call}", f"{self.name}&&peer-rep&peer")
            return found is not None and found[0] == OK

        await eventually(done)

    async def ask(self, method: str, path: str, body: str = "") -> tuple[int, str] | None:
        """Return status and body of an answer, None when there is none."""
        assert self._session is not None
        url = f"http://{self.host}:{self.rest_port}/grid/rest/{path}"
        try:
            async with self._session.request(method, url, data=body or None) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(RETRY_S)
            return None

    @property
    def base_dir(self) -> Path:
        """Where a durable member has its data."""
        return self.directory / "data"

    def tree(self) -> dict[str, Any]:
        """Return what is below `grid` in its configuration."""
        interfaces = {"enabled": True, "interfaces": [self.host]}
        groups = {group: {"enabled": True} for group in GROUPS}
        user = {"username": "peer", "password": self.asks}
        shown = {"username": "peer", "password": self.shows}
        publisher = {
            "cluster-name": self.peer,
            "target-endpoints": self._target,
            "realm": "to-peer",
            "queue-capacity": self.queue_capacity,
            "response-timeout-millis": 1000,
            "batch-size": 5,
            "batch-max-delay-millis": 100,
            "max-concurrent-invocations": 4,
        }
        tree: dict[str, Any] = {
            "cluster-name": self.name,
            "network": {
                "port": {"port": self.rest_port, "auto-increment": False},
                "interfaces": interfaces,
                "rest-api": {"enabled": True, "endpoint-groups": groups},
                "wan": {"enabled": True, "port": {"port": self.wan_port}, "realm": "wan"},
            },
            "security": {
                "realms": [
                    {"name": "wan", "authentication": {"simple": {"users": [user]}}},
                    {"name": "to-peer", "identity": {"username-password": shown}},
                ]
            },
            "wan": {"max-clock-ahead-seconds": self.max_clock_ahead_s},
            "wan-replication": {"peer-rep": {"batch-publisher": {"peer": publisher}}},
            "map": {MAP: {"wan-replication-ref": {"peer-rep": {}}}},
            "logging": {"format": "json"},
        }
        if self.durable:
            tree["persistence"] = {"enabled": True, "base-dir": str(self.base_dir)}
        return tree


class LinedSite(SiteProcess):
    """A member whose publisher goes through a line of the test."""

    def __init__(
        self, name: str, peer: str, directory: Path, chance: random.Random, *, durable: bool
    ) -> None:
        super().__init__(name, peer, directory, durable=durable)
        self.line = BadLine(chance)
        """On the way to the other cluster."""
        (self._line_port,) = free_ports(1)

    async def open(self, other: SiteProcess) -> None:
        """Start the line and the member."""
        await self.line.open(self._line_port, other.wan_port)
        await self.open_at(f"{HOST}:{self._line_port}")

    async def close(self) -> None:
        await super().close()
        await self.line.close()
