"""Which copies of a stream count."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.nats.admin.peers import CHANGE_TIMEOUT_S
from grid_member.engine.nats.admin.streams import (
    NEARLY_CURRENT,
    all_copies,
    change_copies,
    copies_of,
    is_current,
)
from grid_member.engine.nats.client.errors import NatsError, RequestTimeoutError
from grid_member.engine.nats.client.wire import Message

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient

LATELY_NS, LONG_AGO_NS = 20_000_000, 9_000_000_000


@pytest.mark.parametrize(
    "replica",
    [
        {"current": True, "active": LATELY_NS},
        # As it is told in the midst of writes.
        {"current": False, "active": LATELY_NS, "lag": 1},
        {"current": False, "active": LATELY_NS, "lag": NEARLY_CURRENT},
    ],
)
def test_a_copy_that_follows_is_current(replica: dict[str, Any]) -> None:
    assert is_current(replica)


@pytest.mark.parametrize(
    "replica",
    [
        {"current": True, "offline": True, "active": LATELY_NS},
        {"current": False, "active": LATELY_NS, "lag": NEARLY_CURRENT + 1},
        {"current": False, "active": LONG_AGO_NS, "lag": 1},
        # One of which the leader has not heard yet.
        {"current": False, "active": 0},
    ],
)
def test_a_copy_that_is_away_new_or_far_behind_is_not(replica: dict[str, Any]) -> None:
    assert not is_current(replica)


class Told:
    """A client of servers that tell this of every stream."""

    def __init__(self, cluster: dict[str, Any]) -> None:
        self.cluster = cluster

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        return answer({"config": {"num_replicas": 3}, "cluster": {"leader": "a", **self.cluster}})


@pytest.mark.parametrize(
    ("desired", "doing"),
    [
        ({}, ""),
        ({"status": {"description": "waiting for quorum to add peer"}}, "waiting for quorum to"),
        ({"status": {"description": "adding peer b", "err": "no leader"}}, "b, no leader"),
    ],
)
async def test_what_a_move_of_copies_waits_for_is_known(
    desired: dict[str, Any], doing: str
) -> None:
    copies = await copies_of(cast("NatsClient", Told({"desired": desired})), "shard-0")
    assert copies.moving
    assert doing in copies.doing
    assert not (await copies_of(cast("NatsClient", Told({})), "shard-0")).doing


class Servers:
    """A client of servers that have streams; what is asked of them first is lost."""

    def __init__(self, *streams: str, lost: int = 0) -> None:
        self.streams = streams
        self.lost = lost
        self.asked: list[tuple[bytes, float]] = []

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        self.asked.append((subject, timeout_s))
        stream = subject.decode().rpartition(".")[2]
        if stream == "NAMES":
            return answer({"streams": self.streams})
        if self.lost:
            self.lost -= 1
            await asyncio.sleep(timeout_s)
            raise RequestTimeoutError("no answer in time")
        if stream not in self.streams:
            return answer({"error": {"err_code": 10059, "description": "stream not found"}})
        return answer({"config": {"num_replicas": 3}, "cluster": {"leader": "a"}})


def answer(document: dict[str, Any]) -> Message:
    return Message(b"", b"", b"", json.dumps(document).encode(), 1)


async def test_a_look_at_all_copies_asks_again_before_it_gives_up() -> None:
    servers = Servers("shard-0", "other", lost=1)
    found = await all_copies(cast("NatsClient", servers), ["shard-0"])
    assert sorted(found) == ["other", "shard-0"]


async def test_a_stream_that_is_not_named_is_an_error_that_is_waited_for() -> None:
    with pytest.raises(NatsError, match="not found"):
        await all_copies(cast("NatsClient", Servers("other")), ["shard-0"])


async def test_a_change_of_copies_is_given_time() -> None:
    servers = Servers("shard-0", lost=1)
    await change_copies(cast("NatsClient", servers), "shard-0", 2)
    subject, timeout_s = servers.asked[-1]
    assert subject == b"$JS.API.STREAM.UPDATE.shard-0"
    assert timeout_s == CHANGE_TIMEOUT_S
