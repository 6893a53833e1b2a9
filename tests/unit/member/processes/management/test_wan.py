"""Three members agree on WAN replication: states are a member's own, additions are everybody's."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.member.processes.processes import Members
from tests.unit.member.wire import once
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)
WAN = "/grid/rest/wan"
SETTINGS = """  security:
    realms: [{name: to, identity: {username-password: {username: u, password: p}}}]
  wan-replication:
    r:
      batch-publisher:
        london: {cluster-name: london, target-endpoints: "127.0.0.1:1", realm: to}
"""
MAPS = ", m: {wan-replication-ref: {r: {}}}"
PARIS = {
    "publisherId": "paris",
    "clusterName": "paris",
    "targetEndpoints": "127.0.0.1:1",
    "properties": {"realm": "to"},
}


async def tell(members: Members, number: int, call: str, *parameters: str, **headers: str) -> Any:
    body = "&".join(("dev", "", *parameters)).encode()
    return await once(members.rest_ports[number], "POST", f"{WAN}/{call}", body, **headers)


async def publishers(members: Members, number: int) -> dict[str, Any]:
    """Return what a member tells of the publishers, empty before the members have agreed."""
    reply = await once(members.rest_ports[number], "GET", f"{WAN}/status")
    assert reply.status == 200
    found = reply.json["replications"]
    return {each["publisherId"]: each for each in found[0]["publishers"]} if found else {}


async def states(members: Members, number: int) -> list[tuple[str, int]]:
    found = await publishers(members, number)
    return [(each["state"], each["queued"]) for each in found["london"]["members"]]


async def test_three_members_agree(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=False, settings=SETTINGS, maps=MAPS) as members:
        for number in range(3):
            await eventually(partial(publishers, members, number))

        key = {"Idempotency_Key": "k"}

        async def paused() -> bool:
            # 503 until the shards go by the agreement, from then on changes are queued.
            return (await tell(members, 0, "pausePublisher", "r", "", **key)).status == 200  # type: ignore[no-any-return]

        await eventually(paused)
        assert (await tell(members, 1, "pausePublisher", "r", "", **key)).status == 409
        for number in range(2):
            where = f"/grid/rest/maps/m/{number}"
            assert (await once(members.rest_ports[number], "POST", where, b"v")).status == 200

        async def told(number: int) -> bool:
            found = await states(members, number)
            return sorted(found) == [("PAUSED", 1), ("REPLICATING", 0), ("REPLICATING", 1)]

        for number in range(3):
            await eventually(partial(told, number))

        added = json.dumps({"name": "r", "batchPublishers": [PARIS]})
        reply = await tell(members, 2, "addWanConfig", added)
        assert (reply.status, reply.json["addedPublisherIds"]) == (200, ["paris"])
        for number in range(3):
            assert set(await publishers(members, number)) == {"london", "paris"}

        assert (await tell(members, 1, "removeWanConfig", "r", "london")).status == 200
        for number in range(3):
            assert set(await publishers(members, number)) == {"paris"}
