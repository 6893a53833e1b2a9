"""How often a member makes a consumer until one is led by its own server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from grid_member.engine.nats.errors import RequestTimeoutError
from grid_member.engine.nats.feed import LOCAL_TRIES, StreamFeed
from grid_member.engine.nats.peers import peer_id
from grid_member.engine.nats.wire import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client import NatsClient

OWN, OTHER = "own", "other"


class Subscribed:
    """A subscription to nothing."""

    def unsubscribe(self) -> None:
        """It is over."""


class Servers:
    """A client of servers that let another one lead each consumer."""

    def __init__(self, *holders: str, answers: Callable[[int], bool] = lambda _: True) -> None:
        self.holders = holders
        self.answers = answers
        self.made = 0
        self.deleted = 0

    def subscribe(self, subject: bytes, take: object) -> Subscribed:
        return Subscribed()

    def publish(self, subject: bytes, payload: bytes) -> None:
        self.deleted += subject.startswith(b"$JS.API.CONSUMER.DELETE")

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        if subject.startswith(b"$JS.API.STREAM.INFO"):
            replicas = [{"peer": peer_id(name)} for name in self.holders]
            return told({"cluster": {"leader": OTHER, "replicas": replicas}})
        self.made += 1
        if not self.answers(self.made):
            raise RequestTimeoutError("no answer in time")
        return told({"cluster": {"leader": OTHER}})


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
