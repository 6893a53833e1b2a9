"""How often a member makes a consumer until one is led by its own server, and when again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from grid_member.engine.nats.errors import RequestTimeoutError
from grid_member.engine.nats.feed import LOCAL_TRIES, StreamFeed
from grid_member.engine.nats.peers import peer_id
from grid_member.engine.nats.wire import Message
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client import NatsClient

OWN, OTHER = "own", "other"


class Subscribed:
    """A subscription to nothing."""

    def unsubscribe(self) -> None:
        """It is over."""


class Servers:
    """A client of servers that let another one lead each consumer, unless told otherwise."""

    def __init__(self, *holders: str, answers: Callable[[int], bool] = lambda _: True) -> None:
        self.holders = holders
        self.answers = answers
        self.leader = OTHER
        self.whole = True
        """Whether the holders' copies are current."""
        self.moving = False
        self.made = 0
        self.deleted = 0

    def subscribe(self, subject: bytes, take: object) -> Subscribed:
        return Subscribed()

    def publish(self, subject: bytes, payload: bytes) -> None:
        self.deleted += subject.startswith(b"$JS.API.CONSUMER.DELETE")

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        if subject.startswith(b"$JS.API.STREAM.INFO"):
            copy = {"current": self.whole, "active": 10_000_000 if self.whole else 0}
            replicas = [{"peer": peer_id(name), **copy} for name in self.holders]
            cluster = {"leader": OTHER, "replicas": replicas}
            desired: dict[str, Any] = {"desired": {}} if self.moving else {}
            return told({"config": {"num_replicas": 3}, "cluster": cluster | desired})
        if subject.startswith(b"$JS.API.CONSUMER.INFO"):
            return told({"cluster": {"leader": self.leader}})
        self.made += 1
        if not self.answers(self.made):
            raise RequestTimeoutError("no answer in time")
        return told({"cluster": {"leader": self.leader}})


def told(answer: dict[str, Any]) -> Message:
    return Message(b"", b"", b"", json.dumps(answer).encode(), 1)


def feed(servers: Servers) -> StreamFeed:
    client = cast("NatsClient", servers)
    return StreamFeed(client, "shard-0", "m", lambda: OWN, lambda fed: None, lambda: None)


async def made(servers: Servers, times: int) -> bool:
    """Have the feed try so often; tell whether it has a consumer then."""
    one = feed(servers)
    return [await one._made() for _ in range(times)][-1]


async def test_after_an_answer_that_was_lost_the_attempts_are_not_counted_anew() -> None:
    servers = Servers(OWN, answers=lambda number: number % LOCAL_TRIES != 0)
    assert await made(servers, 2)
    assert servers.made == LOCAL_TRIES + 1
    assert servers.deleted == LOCAL_TRIES - 1, "the last one is kept"


async def test_with_a_consumer_the_attempts_are_counted_anew() -> None:
    servers = Servers(OWN)
    assert await made(servers, 2)
    assert servers.made == 2 * LOCAL_TRIES


async def test_who_holds_no_copy_takes_the_first_consumer() -> None:
    servers = Servers()
    assert await made(servers, 1)
    assert (servers.made, servers.deleted) == (1, 0)


async def test_a_consumer_comes_home_when_the_own_server_has_a_whole_copy() -> None:
    servers = Servers()
    one = feed(servers)
    assert await one._made()
    assert not await one._can_come_home(), "nobody else could lead it"
    servers.holders, servers.whole = (OWN,), False
    assert not await one._can_come_home(), "a copy that is made yet feeds nobody"
    servers.whole, servers.moving = True, True
    assert not await one._can_come_home(), "it may be moved away again"
    servers.moving = False
    assert await one._can_come_home()


async def test_a_consumer_that_the_servers_moved_away_comes_home() -> None:
    servers = Servers(OWN)
    servers.leader = OWN
    one = feed(servers)
    assert await one._made()
    assert not await one._can_come_home(), "it is there"
    servers.leader = OTHER
    assert await one._can_come_home()


async def test_a_feed_makes_the_consumer_that_its_own_server_can_lead() -> None:
    servers = Servers()
    one = feed(servers)
    one.start(0)
    try:
        await until(lambda: servers.made == 1)
        servers.holders, servers.leader = (OWN,), OWN
        await until(lambda: servers.made == 2)
        assert not one._away
    finally:
        await one.close()


async def test_a_server_that_is_not_let_lead_is_tried_less_and_less() -> None:
    one = feed(Servers(OWN))
    pauses_s = [one._away_s for _ in range(8) if await one._made()]
    assert pauses_s == [2, 4, 8, 16, 32, 60, 60, 60]
    empty = feed(Servers())
    assert [empty._away_s for _ in range(3) if await empty._made()] == [1, 1, 1]
