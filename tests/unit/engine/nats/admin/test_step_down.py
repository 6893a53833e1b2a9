"""Who leads the servers once the one that does steps down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.nats.admin.peers import SILENCE_S, peer_id, step_down
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.nats.client.wire import Message

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient

LATELY_NS = 20_000_000
OWN = peer_id("own")


class Servers:
    """A client of servers of which one leads, and which may refuse that another one does."""

    def __init__(self, *replicas: dict[str, Any], refuses: bool = False) -> None:
        self.replicas = replicas
        self.refuses = refuses
        self.asked: list[dict[str, Any]] = []

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        if b"STEPDOWN" not in subject:
            meta = {"leader": "own", "replicas": self.replicas}
            return told({"data": {"meta_cluster": meta}})
        self.asked.append(json.loads(payload))
        refused = {"error": {"description": "preferred server not known"}}
        return told(refused if self.refuses else {"success": True})


def told(answer: dict[str, Any]) -> Message:
    return Message(b"", b"", b"", json.dumps(answer).encode(), 1)


def replica(name: str, **differs: object) -> dict[str, Any]:
    usual = {"name": name, "peer": peer_id(name), "current": True, "active": LATELY_NS, "lag": 0}
    return {**usual, **differs}


async def test_the_next_leader_is_there_and_current_and_stays() -> None:
    servers = Servers(
        replica("behind", current=False),
        replica("silent", active=2 * SILENCE_S * 1e9),
        replica("leaving"),
        replica("stays", lag=3),
        replica("stays with all", lag=1),
        replica("unknown", peer="somebody"),
    )
    assert await step_down(cast("NatsClient", servers), OWN, frozenset({peer_id("leaving")}))
    assert servers.asked == [{"placement": {"preferred": "stays with all"}}]


async def test_without_one_that_stays_the_servers_choose() -> None:
    servers = Servers(replica("leaving"))
    assert await step_down(cast("NatsClient", servers), OWN, frozenset({peer_id("leaving")}))
    assert servers.asked == [{}]


async def test_a_refusal_is_an_error() -> None:
    with pytest.raises(NatsError, match="not known"):
        await step_down(cast("NatsClient", Servers(replica("other"), refuses=True)), OWN)


async def test_who_does_not_lead_asks_nothing() -> None:
    servers = Servers(replica("other"))
    assert not await step_down(cast("NatsClient", servers), peer_id("other"))
    assert servers.asked == []
