"""A cluster that takes part in WAN replication, and the calls by which it is asked."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.processes import BenchError, Server, ask
from bench.servers.members import MAP

if TYPE_CHECKING:
    from bench.servers.cluster import ClusterMember

REPLICATION: Final = "to-others"
PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.02
_SENT_BYTES: Final = b"grid_wan_sent_bytes_total{"
_TOMBSTONES: Final = b"grid_wan_tombstones "
_STATUS: Final = "/grid/rest/wan/status"
_PROGRESS: Final = "/grid/rest/wan/sync/progress"


@dataclass(frozen=True, slots=True)
class WanSite:
    """One member or several that replicate, or to which others replicate.

    Attributes:
        name: of the cluster.
        publisher: its first one, by which states and synchronisations are chosen.
        servers: a member each; of several with the nats-server that keeps its log.
        metrics_ports: of the members in the same order.
        cluster: the members once more where they are several.
    """

    name: str
    publisher: str
    servers: tuple[Server, ...]
    metrics_ports: tuple[int, ...]
    cluster: tuple[ClusterMember, ...] = ()

    @property
    def server(self) -> Server:
        """All processes as one, with the port of the first member."""
        pids = tuple(pid for server in self.servers for pid in server.pids)
        return Server(pids, self.servers[0].port)

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(server.port for server in self.servers)

    def status(self) -> dict[str, Any]:
        """Return what it tells of its first publisher."""
        (replication,) = _get(self.ports[0], _STATUS)["replications"]
        found: dict[str, Any] = replication["publishers"][0]
        return found

    def connected(self) -> bool:
        """Tell whether the target has answered; before the members have agreed it has not."""
        with contextlib.suppress(BenchError):  # the members do not know yet
            found = _get(self.ports[0], _STATUS).get("replications") or [{"publishers": []}]
            publishers = found[0]["publishers"]
            return bool(publishers) and all(each["connected"] for each in publishers)
        return False

    def queued(self) -> int:
        """Return how many keys wait."""
        return int(self.status()["queued"]["all"])

    def drain(self) -> None:
        """Return when nothing waits any more.

        Raises:
            BenchError: the queue does not get empty.
        """
        until = time.monotonic() + PATIENCE_S
        while self.queued():
            if time.monotonic() > until:
                raise BenchError(f"the queue does not get empty: {self.status()['problem']}")
            time.sleep(_LOOK_S)

    def sent_bytes(self) -> int:
        """Return the bytes of all batches up to now, without those of synchronisations."""
        return sum(_metric(port, _SENT_BYTES) for port in self.metrics_ports)

    def tombstones(self) -> int:
        """Return how many removed keys the first member remembers."""
        return _metric(self.metrics_ports[0], _TOMBSTONES)

    def tell(self, call: str) -> None:
        """Make a call that is about the publisher's state, on each member.

        Raises:
            BenchError: it was refused.
        """
        for port in self.ports:
            self._post(port, call, f"{self.name}&&{REPLICATION}&{self.publisher}")

    def begin_sync(self, publisher: str) -> str:
        """Let the map be synchronised; return the UUID of that.

        Raises:
            BenchError: it was refused.
        """
        body = f"{self.name}&&{REPLICATION}&{publisher}&{MAP}"
        return str(json.loads(self._post(self.ports[0], "sync/map", body))["uuid"])

    def is_synchronised(self, uuid: str) -> bool:
        """Tell whether a synchronisation has finished.

        Raises:
            BenchError: it failed.
        """
        stage = _get(self.ports[0], f"{_PROGRESS}/{uuid}")["result"]["stage"]
        if stage == "FAILED":
            raise BenchError(f"a synchronisation failed: {self.status()['problem']}")
        return bool(stage == "FINISHED")

    def end_sync(self, uuid: str) -> None:
        """Return when a synchronisation has finished.

        Raises:
            BenchError: it failed, or takes too long.
        """
        until = time.monotonic() + PATIENCE_S
        while not self.is_synchronised(uuid):
            if time.monotonic() > until:
                raise BenchError("a synchronisation takes too long")
            time.sleep(_LOOK_S)

    def _post(self, port: int, call: str, body: str) -> bytes:
        head = f"POST /grid/rest/wan/{call} HTTP/1.1\r\nHost: bench\r\n"
        answer = ask(port, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        if not answer.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"{call} was refused: {answer.decode(errors='replace')}")
        return answer.partition(b"\r\n\r\n")[2]


def _get(port: int, path: str) -> dict[str, Any]:
    answer = ask(port, f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
    if not answer.startswith(b"HTTP/1.1 200"):
        raise BenchError(f"{path} was refused: {answer.decode(errors='replace')}")
    told: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return told


def _metric(port: int, beginning: bytes) -> int:
    """Return the sum of the samples whose lines begin so; 0 without any."""
    lines = ask(port, b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n").splitlines()
    return sum(int(float(line.rpartition(b" ")[2])) for line in lines if line.startswith(beginning))
