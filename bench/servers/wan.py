"""Members that replicate a map, and the sink that acknowledges what they send.

python -m bench.servers.wan PORT        the sink
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from aiohttp import web

from bench.processes import HOST, BenchError, Server, answers, ask, free_port, running
from bench.servers.members import MAP, get_request, member_command
from grid_member.command.event_loop import loop_maker
from grid_member.wan.hello import TargetLimits, Welcome, read_hello, write_welcome
from grid_member.wan.link import CHANGES_PATH, HELLO_PATH
from grid_member.wan.protocol import CONTENT_TYPE, PROTOCOL, with_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = "tokyo"
TARGET: Final = "london"
REPLICATION: Final = "to-london"
USER: Final = {"username": "bench", "password": "bench"}
QUEUE_CAPACITY: Final = 10_000_000
"""No queue of a measurement gets as long: what does not fit would be counted as sent."""
DRAIN_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.02
_LIMITS: Final = TargetLimits(1 << 16, 8 << 20, 16 << 20)
_ONE_MAP_TAKEN: Final = b"\0"
_SENT_BYTES: Final = b"grid_wan_sent_bytes_total{"
_STATUS: Final = b"GET /grid/rest/wan/status HTTP/1.1\r\nHost: bench\r\n\r\n"
_METRICS: Final = b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Publishing:
    """How a member replicates.

    Attributes:
        port: of the target's WAN listener.
        state: in which the publisher begins; only its being there costs nothing.
        referred: whether the map is replicated, or no map is.
        compression: of the publisher.
    """

    port: int
    state: str = "REPLICATING"
    referred: bool = True
    compression: str = "AUTO"


@dataclass(frozen=True, slots=True)
class WanMember:
    """A member, and where it tells of WAN replication."""

    server: Server
    metrics_port: int

    def status(self) -> dict[str, Any]:
        """Return what it tells of its only publisher."""
        answer = ask(self.server.port, _STATUS).partition(b"\r\n\r\n")[2]
        (replication,) = json.loads(answer)["replications"]
        found: dict[str, Any] = replication["publishers"][0]
        return found

    def queued(self) -> int:
        """Return how many keys wait."""
        return int(self.status()["queued"]["all"])

    def drain(self) -> None:
        """Return when nothing waits any more.

        Raises:
            BenchError: the queue does not get empty.
        """
        until = time.monotonic() + DRAIN_PATIENCE_S
        while self.queued():
            if time.monotonic() > until:
                raise BenchError(f"the queue does not get empty: {self.status()['problem']}")
            time.sleep(_LOOK_S)

    def sent_bytes(self) -> int:
        """Return the bytes of all batches up to now."""
        lines = ask(self.metrics_port, _METRICS).splitlines()
        (line,) = [line for line in lines if line.startswith(_SENT_BYTES)]
        return int(float(line.rpartition(b" ")[2]))

    def tell(self, call: str) -> None:
        """Make a call that is about the publisher's state.

        Raises:
            BenchError: it was refused.
        """
        body = f"{SOURCE}&&{REPLICATION}&{TARGET}".encode()
        head = f"POST /grid/rest/wan/{call} HTTP/1.1\r\nHost: bench\r\n"
        answer = ask(self.server.port, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"{call} was refused: {answer.decode(errors='replace')}")


@contextlib.contextmanager
def sink() -> Iterator[Server]:
    """Run a target that answers each batch at once, and keeps nothing."""
    port = free_port()
    command = [sys.executable, "-m", "bench.servers.wan", str(port)]
    with running(command) as server:
        server.wait_until(lambda: answers(port, b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"))
        yield Server((server.process.pid,), port)


@contextlib.contextmanager
def wan_target() -> Iterator[tuple[Server, int]]:
    """Run a member that takes what a source sends; yield it and its WAN listener's port."""
    wan_port = free_port()
    realm = {"name": "wan", "authentication": {"simple": {"users": [USER]}}}
    settings: dict[str, Any] = {
        "cluster-name": TARGET,
        "network": {
            "wan": {"enabled": True, "realm": "wan", "port": {"port": wan_port}},
        },
        "security": {"realms": [realm]},
    }
    with _member(settings) as target:
        yield target.server, wan_port


@contextlib.contextmanager
def wan_source(publishing: Publishing | None) -> Iterator[WanMember]:
    """Run a member that replicates as said, or has no WAN replication at all."""
    settings: dict[str, Any] = {"cluster-name": SOURCE}
    if publishing is not None:
        publisher = {
            "cluster-name": TARGET,
            "target-endpoints": f"{HOST}:{publishing.port}",
            "realm": "to-target",
            "initial-publisher-state": publishing.state,
            "queue-capacity": QUEUE_CAPACITY,
            "compression": publishing.compression,
        }
        settings["security"] = {
            "realms": [{"name": "to-target", "identity": {"username-password": USER}}]
        }
        settings["wan-replication"] = {REPLICATION: {"batch-publisher": {TARGET: publisher}}}
        if publishing.referred:
            settings["map"] = {MAP: {"wan-replication-ref": {REPLICATION: {}}}}
    with _member(settings, connects=publishing is not None) as source:
        yield source


def _is_connected(source: WanMember) -> bool:
    found = json.loads(ask(source.server.port, _STATUS).partition(b"\r\n\r\n")[2])
    replications = found.get("replications")  # none before the members have agreed
    return bool(replications) and bool(replications[0]["publishers"][0]["connected"])


@contextlib.contextmanager
def _member(settings: dict[str, Any], *, connects: bool = False) -> Iterator[WanMember]:
    port, metrics_port = free_port(), free_port()
    loopback = {"enabled": True, "interfaces": [HOST]}
    groups = {group: {"enabled": True} for group in ("DATA", "WAN")}
    network = {
        "port": {"port": port, "auto-increment": False},
        "interfaces": loopback,
        "rest-api": {"enabled": True, "endpoint-groups": groups},
    }
    tree = {
        "map": {"default": {}},
        "metrics": {"enabled": True, "port": {"port": metrics_port}, "interfaces": loopback},
        **settings,
        "network": network | settings.get("network", {}),
    }
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "grid.yaml"
        config.write_text(json.dumps({"grid": tree}), encoding="utf-8")
        with running(member_command(config)) as server:
            server.wait_until(lambda: answers(port, get_request("none")))
            made = WanMember(Server((server.process.pid,), port), metrics_port)
            if connects:
                server.wait_until(partial(_is_connected, made))
            yield made


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
