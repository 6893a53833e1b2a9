"""Whether it is agreed on who votes on a stream, as a server tells of its own groups."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.nats.admin.peers import peers, unsettled_groups
from grid_member.engine.nats.admin.streams import copies_of
from grid_member.engine.nats.client.wire import Message
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient

PATIENCE_S = 30.0
SETTLED = {"leader": "a", "pindex": 1, "observer": False, "peers": {"a": {}, "b": {}}}


async def test_a_real_server_tells_of_the_groups_of_streams() -> None:
    async with Cluster(3) as cluster:
        shards = cluster.engines[0]._cluster
        copies = await copies_of(shards.client, "shard-0-image")
        found = await peers(shards.system)
        name = shards.server_name
        assert name is not None

        groups = frozenset({copies.group})

        async def told(present: frozenset[str]) -> frozenset[str]:
            return await unsettled_groups(shards.system, name, groups, present, groups)

        assert await told(frozenset()) == {copies.group}
        async with asyncio.timeout(PATIENCE_S):
            while await told(found.ids):  # noqa: ASYNC110 (it is asked for)
                await asyncio.sleep(0.05)
        await condition(lambda: cluster.engines[0].replication().copied)


@pytest.mark.parametrize(
    "unlike",
    [{"leader": ""}, {"pindex": 0}, {"observer": True}, {"peers": {"a": {}, "gone": {}}}],
    ids=str,
)
async def test_what_keeps_a_vote_from_counting(unlike: dict[str, Any]) -> None:
    told, groups, present = ToldGroups(g=SETTLED | unlike), frozenset({"g"}), frozenset({"a", "b"})
    assert await unsettled_groups(told.system, "s", groups, present, groups) == {"g"}
    unlike.clear()
    told = ToldGroups(g=SETTLED | unlike, of_no_matter=SETTLED | {"pindex": 0})
    assert await unsettled_groups(told.system, "s", groups, present, groups) == frozenset()


async def test_a_server_that_tells_nothing_of_a_group_votes_only_where_it_holds_no_copy() -> None:
    told, groups, present = ToldGroups(g=SETTLED), frozenset({"g", "h"}), frozenset({"a", "b"})
    system, none = told.system, frozenset[str]()
    assert await unsettled_groups(system, "s", groups, present, held=groups) == {"h"}
    assert await unsettled_groups(system, "s", groups, present, held=none) == frozenset()
    # As a server that was started again does at first, and one that its member holds back.
    assert await unsettled_groups(ToldGroups().system, "s", groups, present, groups) == groups


class ToldGroups:
    """A server that tells of these groups."""

    def __init__(self, **groups: dict[str, Any]) -> None:
        self.system = cast("NatsClient", self)
        self._groups = groups

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        assert json.loads(payload)["account"] == "GRID"
        data = {"GRID": self._groups} if self._groups else {}
        return Message(b"", b"", b"", json.dumps({"data": data}).encode(), 1)
