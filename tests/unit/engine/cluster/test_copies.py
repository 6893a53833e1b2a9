"""Which copies of a stream count."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.nats.streams import NEARLY_CURRENT, copies_of, is_current
from grid_member.engine.nats.wire import Message

if TYPE_CHECKING:
    from grid_member.engine.nats.client import NatsClient

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
        answer = {"config": {"num_replicas": 3}, "cluster": {"leader": "a", **self.cluster}}
        return Message(b"", b"", b"", json.dumps(answer).encode(), 1)


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
