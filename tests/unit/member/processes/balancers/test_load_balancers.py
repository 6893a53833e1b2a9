"""The configurations of docs/load-balancers.md, run by nginx and HAProxy, do what the page says."""

from __future__ import annotations

import asyncio
import io
import itertools
import re
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ssl import create_default_context
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.unit.member.processes.balancers.balancers import (
    balancing,
    encrypted,
    passed_through,
    plain,
    printed,
    repeating_offers,
    replaced,
)
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.member.running import configuration
from tests.unit.member.security.certificates import Authority
from tests.unit.ports import HOST
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

PROXIES: Final = ("nginx", "haproxy")
PACE_S: Final = 0.04
"""Between two requests of a client: they are to be there all the time, not to be many."""
REQUEST_S: Final = 60.0
CLIENTS: Final = {"map": 2, "offer": 1, "poll": 2}
"""Of each load balancer."""
ENOUGH: Final = 20
"""Requests of each client between two faults."""


@dataclass
class Load:
    """Clients of one load balancer, and what they were answered."""

    url: str
    session: aiohttp.ClientSession
    name: str = ""
    again: bool = False
    """Whether the load balancer repeats offers."""
    failed: list[str] = field(default_factory=list)
    """Requests without the answer that the page promises."""
    failed_offers: list[str] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    polled: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    ended: bool = False

    async def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        """Return status and body; 0 and an error when there is no whole answer."""
        data = io.BytesIO(body.encode()) if body else None
        try:
            async with self.session.request(method, f"{self.url}/rest/{path}", data=data) as answer:
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return 0, repr(error)

    def expect(self, request: str, answer: tuple[int, str], *wanted: tuple[int, str]) -> None:
        if answer not in wanted:
            self.failed.append(f"{request}: {answer}")

    async def use_map(self, name: str, turn: int) -> None:
        key, value = f"maps/default/{name}-{turn % 7}", f"{name}-{turn}"
        self.expect(f"POST {key}", await self.ask("POST", key, value), (200, ""))
        self.expect(f"GET {key}", await self.ask("GET", key), (200, value))
        if turn % 5 == 0:
            self.expect(f"DELETE {key}", await self.ask("DELETE", key), (200, ""))

    async def offer(self, name: str, turn: int) -> None:
        status, text = await self.ask("POST", "queues/default", item := f"{name}-{turn}")
        if status == 200:
            self.offered.append(item)
        else:
            self.failed_offers.append(f"{status} {text}")

    async def poll(self, name: str, turn: int) -> None:
        status, text = await self.ask("DELETE", f"queues/default/{turn % 3}")
        if status == 200:
            self.polled.append(text)
        elif status != 204:
            self.failed.append(f"poll: {status} {text}")

    async def repeat(self, kind: str, name: str) -> None:
        """Do the same until the load ends, each time with another turn."""
        step = {"map": self.use_map, "offer": self.offer, "poll": self.poll}[kind]
        while not self.ended:
            self.done[name] = turn = self.done.get(name, 0) + 1
            await step(name, turn)
            await asyncio.sleep(PACE_S)


@asynccontextmanager
async def loaded(
    url: str, name: str, *, again: bool = False, kept: bool = True
) -> AsyncIterator[Load]:
    """Run the clients; without kept each request has a connection of its own."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_S)
    connector = aiohttp.TCPConnector(limit=0, force_close=not kept)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        load = Load(url, session, name, again)
        async with asyncio.TaskGroup() as clients:
            for kind, count in CLIENTS.items():
                for number in range(count):
                    clients.create_task(load.repeat(kind, f"{name}-{kind}-{number}"))
            try:
                yield load
            finally:
                load.ended = True  # each client waits for its last answer, which may hold an item


async def worked(*loads: Load) -> None:
    """Return when every client has had some more answers."""
    goals = [{name: done + ENOUGH for name, done in load.done.items()} for load in loads]

    def reached() -> bool:
        return all(
            load.done[name] >= goal
            for load, goal_of in zip(loads, goals, strict=True)
            for name, goal in goal_of.items()
        )

    await until(reached, REQUEST_S)


async def stop_one_after_the_other(members: Members, client: HttpClient, *loads: Load) -> None:
    for number in range(members.size):
        await members.restart(number)
        await eventually(client.safe)
        await worked(*loads)


async def kill_one(members: Members, client: HttpClient, *loads: Load) -> None:
    await members.kill(1)
    await worked(*loads)
    members.start(1)
    await members.ready(1)
    await eventually(client.safe)
    await worked(*loads)


async def left_in_queue(url: str) -> list[str]:
    async with aiohttp.ClientSession() as session:
        load, found = Load(url, session), list[str]()
        while (answer := await load.ask("DELETE", "queues/default/0"))[0] == 200:
            found.append(answer[1])
        assert answer == (204, "")
        return found


@pytest.mark.timeout(240)
async def test_no_request_fails_that_the_page_promises(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(Members(tmp_path, durable=False))
        client = await stack.enter_async_context(HttpClient(members))
        await eventually(client.safe)
        clients = await stack.enter_async_context(AsyncExitStack())
        loads = []
        for proxy, again in itertools.product(PROXIES, (False, True)):
            name = f"{proxy}-{again}"
            text = repeating_offers(proxy) if again else plain(proxy)
            url = await stack.enter_async_context(
                balancing(proxy, text, members.rest_ports, tmp_path / name)
            )
            await refuses_what_lasts_too_long(url)
            await passes_on_what_it_gets(url, members.rest_ports[0])
            loads.append(await clients.enter_async_context(loaded(url, name, again=again)))
        await until(lambda: all(len(load.done) == sum(CLIENTS.values()) for load in loads))
        await stop_one_after_the_other(members, client, *loads)
        assert polled_twice(loads) == set()
        await kill_one(members, client, *loads)
        await clients.aclose()
        left = await left_in_queue(f"http://{HOST}:{members.rest_ports[0]}/grid")
    for load in loads:
        assert load.failed == []
        assert not load.again or load.failed_offers == []
    offered = {item for load in loads for item in load.offered}
    assert offered <= {item for load in loads for item in load.polled} | set(left)


def polled_twice(loads: list[Load]) -> set[str]:
    """Return the items that were polled twice though their offers are never repeated."""
    polled = Counter(item for load in loads for item in load.polled)
    names = tuple(load.name for load in loads if not load.again)
    return {item for item, times in polled.items() if times > 1 and item.startswith(names)}


async def refuses_what_lasts_too_long(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        load = Load(url, session)
        for seconds in ("61", "75", "0099", "100", "3600", "2147483647", "61/"):
            assert (await load.ask("DELETE", f"queues/idle/{seconds}"))[0] == 400, seconds
        assert (await load.ask("DELETE", "queues/idle/1")) == (204, "")


async def passes_on_what_it_gets(url: str, member: int) -> None:
    value = "x" * 2_000_000
    async with aiohttp.ClientSession() as session:
        through, direct = Load(url, session), Load(f"http://{HOST}:{member}/grid", session)
        assert await through.ask("POST", "maps/default/a%2Fb/100", value) == (200, "")
        assert await direct.ask("GET", "maps/default/a%2Fb/100") == (200, value)


def test_a_read_time_out_is_longer_than_the_longest_poll() -> None:
    longest = 60
    times = [int(s) for s in re.findall(r"proxy_read_timeout (\d+)s;", printed("nginx"))]
    times += [int(s) for s in re.findall(r"timeout (?:server|client) (\d+)s", printed("haproxy"))]
    assert sorted(times) == [30, 30, 75, 75, 75]
    assert max(times) > longest


@pytest.mark.parametrize(
    ("proxy", "kind"),
    [("nginx", encrypted), ("haproxy", encrypted), ("haproxy", passed_through)],
)
async def test_requests_go_through_tls(
    proxy: str,
    kind: Callable[[str], str],
    tmp_path: Path,
    member_process: Callable[..., MemberProcess],
) -> None:
    authority = Authority(tmp_path)
    member, own = authority.issue("member"), authority.issue("balancer")
    (authority.directory / "balancer.pem").write_bytes(
        own.certificate.read_bytes() + own.key.read_bytes()
    )
    ssl = f"ssl: {{enabled: true, certificate-file: {member.certificate}, key-file: {member.key}}}"
    process = member_process(configuration().replace("rest-api:", f"{ssl}\n    rest-api:"))
    process.wait_for("ready")
    text = replaced(
        kind(proxy), ("/etc/grid", str(authority.directory)), ("grid.example", "localhost")
    )
    trust = create_default_context(cafile=authority.file)
    async with (
        balancing(proxy, text, [process.port] * 3, tmp_path / "balancer", trust) as url,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
    ):
        load = Load(url, session)
        await load.use_map("tls", 1)
        assert load.failed == []
        assert await load.ask("DELETE", "queues/default/0") == (204, "")
