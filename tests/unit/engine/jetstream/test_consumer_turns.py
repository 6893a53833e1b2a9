"""How a member comes to be fed by its own server, and what feeds it until then."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.jetstream.consumer import StreamConsumer
from grid_member.engine.jetstream.local_leader import LOCAL_S, NO_COPY_S, SOON_S, TRIES, LocalLeader
from grid_member.engine.nats.admin.consumers import Consumers
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.client.errors import RequestTimeoutError
from grid_member.engine.nats.client.wire import Message
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.nats.client.client import NatsClient

OWN, OTHER = "own", "other"


class Servers:
    """A client of servers that let another one lead each consumer, unless told otherwise."""

    def __init__(self, *takers: str) -> None:
        self.takers = takers
        self.leads: Callable[[int], str] = lambda number: OTHER
        """Who leads the consumer that is made as the first, second…"""
        self.answers: Callable[[int], bool] = lambda number: True
        """Whether it is told that one was made."""
        self.whole = True
        """Whether the holders' copies are current."""
        self.moving = False
        self.odd = False
        """Whether what they answer is nothing that they would."""
        self.holding: asyncio.Future[None] | None = None
        """What the answer waits for that tells of a consumer."""
        self.looks = 0
        self.made: list[str] = []
        self.done: list[str] = []
        """What was made, listened to, left and given up."""
        self.takes: dict[str, Callable[[Sequence[Message]], None]] = {}
        self.leaders: dict[str, str] = {}

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> Heard:
        name = subject.rsplit(b".", 1)[1].decode()
        self.done.append(f"hear {name}")
        self.takes[name] = take
        return Heard(self, name)

    def publish(self, subject: bytes, payload: bytes) -> None:
        assert subject.startswith(b"$JS.API.CONSUMER.DELETE.shard-0.m-")
        self.done.append(f"delete {subject.rsplit(b'-', 1)[1].decode()}")

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        if subject.startswith(b"$JS.API.STREAM.INFO"):
            self.looks += 1
            copy = {"current": self.whole, "active": 10_000_000 if self.whole else 0}
            replicas = [{"peer": peer_id(name), **copy} for name in self.takers]
            cluster = {"leader": OTHER, "replicas": replicas}
            desired: dict[str, Any] = {"desired": {}} if self.moving else {}
            config = {} if self.odd else {"num_replicas": 3}
            return told({"config": config, "cluster": cluster | desired})
        name = subject.rsplit(b"-", 1)[1].decode()
        if subject.startswith(b"$JS.API.CONSUMER.INFO"):
            return told({"cluster": {"leader": self.leaders[name]}})
        self.made.append(name)
        self.done.append(f"make {name}")
        self.leaders[name] = self.leads(len(self.made))
        if self.holding is not None:
            await self.holding
        if not self.answers(len(self.made)):
            raise RequestTimeoutError("no answer in time")
        return told({"cluster": {"leader": self.leaders[name]}})

    def consumer(self, name: str, *sequences: int) -> None:
        """Send what a consumer of everything sends."""
        replies = [b"$JS.ACK.s.c.1.%d.%d.1000000.0" % (one, one) for one in sequences]
        self.takes[name]([Message(b"", reply, b"", b"", 1) for reply in replies])


class Heard:
    """A subscription to what a consumer sends."""

    def __init__(self, servers: Servers, name: str) -> None:
        self._servers = servers
        self._name = name

    def unsubscribe(self) -> None:
        """It is over."""
        self._servers.done.append(f"leave {self._name}")


def told(answer: dict[str, Any]) -> Message:
    return Message(b"", b"", b"", json.dumps(answer).encode(), 1)


async def away(servers: Servers) -> tuple[LocalLeader, list[int]]:
    """Return what looks after a first consumer, and what it brings home."""
    client, brought = cast("NatsClient", servers), list[int]()
    consumers = Consumers(client, "shard-0", "m")
    local_leader = LocalLeader(consumers, lambda: OWN, lambda: 0, brought.append)
    number = consumers.number()
    local_leader.note_leader(number, await consumers.make(number, 0))
    servers.done.clear()
    return local_leader, brought


async def test_a_consumer_comes_home_when_the_own_server_has_a_whole_copy() -> None:
    servers = Servers()
    servers.leads = lambda number: OTHER if number == 1 else OWN
    local_leader, brought = await away(servers)
    await local_leader.look()
    assert not brought, "nobody else could lead it"
    servers.takers, servers.whole = (OWN,), False
    await local_leader.look()
    assert not brought, "a copy that is made yet feeds nobody"
    servers.whole, servers.moving = True, True
    await local_leader.look()
    assert not brought, "it may be moved away again"
    servers.moving = False
    await local_leader.look()
    assert brought == [2]
    assert servers.done == ["make 2", "delete 1"]
    await local_leader.look()
    assert brought == [2], "it is there"


async def test_a_consumer_that_the_servers_moved_away_comes_home() -> None:
    servers = Servers(OWN)
    servers.leads = lambda number: OWN
    local_leader, brought = await away(servers)
    await local_leader.look()
    assert not brought
    servers.leaders["1"] = OTHER
    await local_leader.look()
    assert brought == [2]


async def test_those_that_others_lead_are_given_up_until_one_comes() -> None:
    servers = Servers(OWN)
    servers.leads = lambda number: OTHER if number < 4 else OWN
    local_leader, brought = await away(servers)
    await local_leader.look()
    assert brought == [4]
    assert servers.done == ["make 2", "delete 2", "make 3", "delete 3", "make 4", "delete 1"]


async def test_one_that_nobody_told_of_is_given_up_too() -> None:
    servers = Servers(OWN)
    servers.answers = lambda number: number == 1
    local_leader, brought = await away(servers)
    await local_leader.look()
    assert not brought
    assert servers.done == ["make 2", "delete 2"]
    assert local_leader._pause_s == SOON_S


async def test_a_server_that_is_not_let_lead_is_tried_less_and_less() -> None:
    servers = Servers(OWN)
    local_leader, brought = await away(servers)
    pauses_s = [local_leader._pause_s async for _ in looks(local_leader, 8)]
    assert pauses_s == [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(servers.made) == 1 + 8 * TRIES
    assert not brought


async def test_who_is_to_have_no_copy_asks_less_and_less() -> None:
    local_leader, _ = await away(Servers())
    pauses_s = [local_leader._pause_s async for _ in looks(local_leader, 13)]
    assert pauses_s[:2] == [SOON_S, 1.25]
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[-1] == NO_COPY_S


async def looks(local_leader: LocalLeader, times: int) -> Any:
    """Look so often."""
    for _ in range(times):
        await local_leader.look()
        yield


async def test_an_odd_answer_ends_no_feed() -> None:
    servers = Servers(OWN)
    servers.leads = lambda number: OTHER if number == 1 else OWN
    local_leader, brought = await away(servers)
    servers.odd = True
    await local_leader.look()
    assert not brought
    servers.odd = False
    await local_leader.look()
    assert brought == [2]
    assert local_leader._pause_s == LOCAL_S


@pytest.mark.parametrize("own", [None, OWN], ids=["of no matter", "leads"])
async def test_a_feed_that_is_at_home_stays(own: str | None) -> None:
    servers = Servers(OWN)
    servers.leads = lambda number: OWN
    client = cast("NatsClient", servers)
    consumers = Consumers(client, "shard-0", "m")
    local_leader = LocalLeader(consumers, lambda: own, lambda: 0, lambda number: None)
    local_leader.note_leader(consumers.number(), OWN)
    assert local_leader._pause_s == LOCAL_S


async def test_what_feeds_goes_on_until_the_own_server_does() -> None:
    servers = Servers()
    servers.leads = lambda number: OTHER if number < 3 else OWN
    client, taken = cast("NatsClient", servers), list[int]()
    one = StreamConsumer(
        client,
        "shard-0",
        "m",
        lambda: OWN,
        lambda fed: taken.extend(one.sequence for one in fed),
        lambda: None,
    )
    one.start(0)
    try:
        await until(lambda: servers.looks)
        servers.consumer("1", 1, 2)
        servers.takers = (OWN,)
        await until(lambda: "hear 3" in servers.done)
        assert servers.done == [
            *("hear 1", "make 1"),
            *("make 2", "delete 2", "make 3", "delete 1", "leave 1", "hear 3"),
        ]
        servers.consumer("1", 3)
        assert taken == [1, 2], "what the one before sends is of no matter any more"
        servers.consumer("3", 1, 2, 3, 4)
        assert taken == [1, 2, 3, 4]
    finally:
        await one.close()


async def test_a_consumer_that_comes_while_the_feed_is_closed_is_left() -> None:
    servers = Servers()
    servers.leads = lambda number: OTHER if number == 1 else OWN
    client = cast("NatsClient", servers)
    one = StreamConsumer(client, "shard-0", "m", lambda: OWN, lambda fed: None, lambda: None)
    one.start(0)
    await until(lambda: servers.looks)
    servers.holding = asyncio.get_running_loop().create_future()
    servers.takers = (OWN,)
    await until(lambda: servers.made == ["1", "2"])
    servers.holding.set_result(None)
    await one.close()
    assert servers.done[-2:] == ["hear 2", "leave 2"]
