"""Three `grid-member` processes that form a cluster, and clients over HTTP."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.unit.engine.cluster.checker import NOTHING, Span
from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.running import MemberProcess
from tests.unit.ports import free_ports

REQUEST_S: Final = 20.0
RETRY_S: Final = 0.05
PATIENCE_S: Final = 40.0
START_S: Final = 90.0
"""Many processes that start at once may take so long on a machine that is busy."""
_CONFIGURATION: Final = """
grid:
  cluster-name: dev
  instance-name: m{number}
  network:
    port: {{port: {rest}}}
    public-address: {host}
    rest-api:
      enabled: true
      endpoint-groups:
        {{DATA: {{enabled: true}}, CLUSTER_READ: {{enabled: true}}, CP: {{enabled: true}},
        CLUSTER_WRITE: {{enabled: true}}, PERSISTENCE: {{enabled: true}}, WAN: {{enabled: true}}}}
    interfaces: {{enabled: true, interfaces: [{host}]}}
    cluster: {{port: {{port: {own}}}}}
    join: {{tcp-ip: {{enabled: true, member-list: [{members}]}}}}
  map: {{default: {{backup-count: {backups}}}{maps}}}
  queue: {{default: {{backup-count: {backups}}}}}
  logging: {{format: json}}
"""


METRICS: Final = "  metrics: {enabled: true, port: {port: 0}}\n"
"""Settings that have members tell `metrics`."""


class Members:
    """The processes; `async with` ends them all."""

    def __init__(
        self,
        directory: Path,
        *,
        durable: bool,
        size: int = 3,
        settings: str = "",
        persistence: str = "",
        maps: str = "",
        most: int | None = None,
        lite: tuple[int, ...] = (),
        backup_count: int = 1,
        recovery_policy: str = "FULL_RECOVERY_ONLY",
    ) -> None:
        """Make none yet; with `most`, further ones may be started later."""
        most = most or size
        ports = free_ports(2 * most)
        self.size = size
        self.known = dict.fromkeys(range(most), size)
        """How many of the members each has in its list, when it is started."""
        self.rest_ports = ports[:most]
        self._cluster_ports = ports[most:]
        self._lite = lite
        self._backup_count = backup_count
        self._directory = directory
        self._durable = durable
        self._settings = settings
        self._persistence = persistence
        """More of that element of a durable member, behind a comma."""
        self._maps = maps
        """More maps, behind a comma."""
        self._recovery_policy = recovery_policy
        self.processes: dict[int, MemberProcess] = {}

    async def __aenter__(self) -> Members:
        for number in range(self.size):
            self.start(number)
        try:
            await asyncio.gather(*(self.ready(number) for number in range(self.size)))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes.values():
            await asyncio.to_thread(process.kill)

    def host(self, number: int) -> str:
        """Return where a member is."""
        return HOST

    def inside(self, number: int) -> tuple[str, ...]:
        """Return what to put before a command that is to run there."""
        return ()

    def start(self, number: int) -> None:
        """Start a member that does not run."""
        self.processes[number] = self._started(number)

    async def ready(self, number: int) -> None:
        await asyncio.to_thread(self.processes[number].wait_for, "ready")

    async def logged(self, number: int, message: str) -> None:
        await asyncio.to_thread(self.processes[number].wait_for, message)

    async def kill(self, *numbers: int) -> None:
        """End members as crashes would, all at once."""
        for number in numbers:
            os.kill(self.processes[number].process.pid, signal.SIGKILL)
        for number in numbers:
            await asyncio.to_thread(self.processes[number].kill)

    def signal(self, number: int, sent: signal.Signals) -> None:
        self.processes[number].process.send_signal(sent)

    def server_of(self, member: int) -> int:
        """Return the process of a member's nats-server."""
        own = self.processes[member].process.pid
        text = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii")
        (server,) = [
            int(child)
            for child in text.split()
            if Path(f"/proc/{child}/comm").read_text(encoding="ascii").strip() == "nats-server"
        ]
        return server

    async def restart(self, number: int) -> None:
        """End a member gracefully and start it again."""
        self.signal(number, signal.SIGTERM)
        status = await asyncio.to_thread(self.processes[number].end)
        assert status == 0, self.processes[number].log
        self.start(number)
        await self.ready(number)

    async def asked(self, member: int, call: str) -> dict[str, Any]:
        """Return what a member answers to a call of `management/cluster`."""
        url = f"http://{self.host(member)}:{self.rest_ports[member]}/grid/rest/management/cluster/{call}"
        key = {"Idempotency-Key": call}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data="dev&", headers=key) as reply,
        ):
            assert reply.status == 200, await reply.text()
            answer: dict[str, Any] = await reply.json()
            return answer

    def configuration(self, number: int) -> str:
        """Return the configuration of a member, as it is when it starts."""
        text = _CONFIGURATION.format(
            number=number,
            host=self.host(number),
            rest=self.rest_ports[number],
            own=self._cluster_ports[number],
            members=", ".join(
                f'"{self.host(other)}:{self._cluster_ports[other]}"'
                for other in range(self.known[number])
            ),
            backups=self._backup_count,
            maps=self._maps,
        )
        if number in self._lite:
            text += "  lite-member: {enabled: true}\n"
        if self._durable:
            text += (
                f"  persistence: {{enabled: true{self._persistence}, "
                f"base-dir: {self._directory / f'm{number}' / 'data'}, "
                f"cluster-data-recovery-policy: {self._recovery_policy}}}\n"
            )
        return text + self._settings

    def _started(self, number: int) -> MemberProcess:
        text, directory = self.configuration(number), self._directory / f"m{number}"
        process = MemberProcess(text, directory, before=self.inside(number))
        process.patience_s = START_S
        return process


async def metrics(members: Members, number: int) -> str:
    """Return what the metrics of a member tell; its settings are to have `METRICS`."""
    log = members.processes[number].log
    port = next(int(entry["port"]) for entry in log if entry.get("listener") == "metrics")
    url = f"http://{members.host(number)}:{port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return await reply.text()


class HttpClient:
    """Talks to the members; a patient one tries the next one, as well-behaved clients do."""

    def __init__(self, members: Members) -> None:
        self._urls = [
            f"http://{members.host(number)}:{port}/grid/rest"
            for number, port in enumerate(members.rest_ports)
        ]
        self._session: aiohttp.ClientSession | None = None
        self.patient = False
        self.failed: list[str] = []
        """What a patient one got no answer for in all its time."""
        self.tried_again = 0
        self.lost_polls: list[Span] = []
        """Those that a patient one has made again: an item may have been on its way, and back."""

    async def __aenter__(self) -> HttpClient:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def put(self, member: int, name: str, key: str, value: str) -> bool | None:
        answer = await self._ask(member, "POST", f"/maps/{name}/{key}", value)
        return None if answer is None else True

    async def get(self, member: int, name: str, key: str) -> str | None:
        return await self._ask(member, "GET", f"/maps/{name}/{key}")

    async def offer(self, member: int, name: str, value: str) -> bool | None:
        answer = await self._ask(member, "POST", f"/queues/{name}", value)
        return None if answer is None else True

    async def poll(self, member: int, name: str, timeout_s: int) -> str | None:
        return await self._ask(member, "DELETE", f"/queues/{name}/{timeout_s}")

    async def size(self, member: int) -> int:
        """Return how many members a member knows, 0 when it does not tell."""
        answer = await self._ask(member, "GET", "/cluster")
        return 0 if not answer else answer.count('"address"')

    async def safe(self, *members: int) -> bool:
        """Return whether members, all of them by default, say that every copy is current."""
        asked = members or range(len(self._urls))
        return all([await self.healthy(member, "cluster-safe") for member in asked])

    async def healthy(self, member: int, check: str) -> bool:
        """Return whether a health check of a member is passed."""
        assert self._session is not None
        url = self._urls[member].replace("/rest", f"/health/{check}")
        try:
            async with self._session.get(url) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def leave(self, member: int) -> str:
        """Ask a member to leave for good; return the operation's id."""
        assert self._session is not None
        url = f"{self._urls[member]}/management/cluster/memberShutdown"
        headers = {"X-Grid-Leave": "forever"}
        async with self._session.post(url, data="dev&", headers=headers) as response:
            assert response.status == 200, await response.text()
            return response.headers["X-Grid-Operation"]

    async def operation(self, member: int, wanted: str) -> dict[str, object]:
        """Return an operation as a member tells of it."""
        assert self._session is not None
        url = f"{self._urls[member]}/management/cluster/operations"
        async with self._session.get(url) as response:
            found: list[dict[str, object]] = await response.json()
        return next(one for one in found if one["id"] == wanted)

    async def _ask(self, member: int, method: str, path: str, value: str = "") -> str | None:
        until_s = time.monotonic() + REQUEST_S
        for attempt in itertools.count():
            place = (member + attempt) % len(self._urls)
            begun_s = time.monotonic()
            answer = await self._asked(place, method, path, value)
            if answer is not None or not self.patient:
                return answer
            self.tried_again += 1
            if method == "DELETE":
                self.lost_polls.append(Span(place, begun_s, time.monotonic()))
            if time.monotonic() > until_s:
                self.failed.append(f"{method} {path}")
                break
        return None

    async def _asked(self, member: int, method: str, path: str, value: str) -> str | None:
        """Return the answer, or None when nobody knows what became of the request."""
        assert self._session is not None
        data = io.BytesIO(value.encode()) if method == "POST" else None
        try:
            async with self._session.request(
                method, self._urls[member] + path, data=data
            ) as response:
                body = await response.text()
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(RETRY_S)
            return None
        if response.status == 503:
            assert "Retry-After" in response.headers, response.headers
            await asyncio.sleep(RETRY_S)
            return None
        assert response.status in {200, 204}, (response.status, dict(response.headers))
        return NOTHING if response.status == 204 else body
