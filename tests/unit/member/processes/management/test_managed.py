"""What is managed over any of three processes holds on all of them when it is answered."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import pytest

from grid_member.command import EXIT_START
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.member.wire import once
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S: Final = 60.0
SUCCESS: Final = {"status": "success"}
MANAGEMENT: Final = "rest/management/cluster"
CP: Final = "  cp-subsystem: {cp-member-count: 3}\n"
GROUPS: Final = "rest/cp-subsystem/groups"
WRITES: Final = ("rest/maps/m/k", "rest/queues/q")
ITEMS: Final = 60
pytestmark = pytest.mark.timeout(240)


class Reply(NamedTuple):
    status: int
    text: str
    error: str

    @property
    def found(self) -> Any:
        return json.loads(self.text)


async def call(
    members: Members, number: int, path: str, body: str | None = "dev&", key: str = ""
) -> Reply:
    """Send one call to a member, a GET without a body, and return what it answers."""
    url = f"http://{members.host(number)}:{members.rest_ports[number]}/grid/{path}"
    headers = {"Idempotency-Key": key} if key else {}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session,
        session.request("GET" if body is None else "POST", url, data=body, headers=headers) as it,
    ):
        return Reply(it.status, await it.text(), it.headers.get("X-Grid-Error", ""))


async def on_all(members: Members, path: str, body: str | None = None) -> list[Reply]:
    return [await call(members, number, path, body) for number in range(3)]


async def state(members: Members, number: int, wanted: str, key: str = "") -> Reply:
    return await call(members, number, f"{MANAGEMENT}/changeState", f"dev&&{wanted}", key)


async def ended(members: Members, *numbers: int) -> list[int]:
    ends = [asyncio.to_thread(members.processes[number].end) for number in numbers]
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*ends)


async def test_a_state_holds_everywhere_when_it_is_answered(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=False) as members, HttpClient(members) as client:
        await eventually(client.safe)
        written = ""
        for turn, wanted in enumerate(("frozen", "passive", "no_migration", "passive", "active")):
            changed = await state(members, turn % 3, wanted)
            assert (changed.status, changed.found) == (200, {**SUCCESS, "state": wanted})
            for shown in await on_all(members, f"{MANAGEMENT}/state", "dev&"):
                assert shown.found == {**SUCCESS, "state": wanted}
            for shown in await on_all(members, "health/cluster-state"):
                assert shown.found == wanted.upper()
            passive = wanted == "passive"
            for path in WRITES:
                for shown in await on_all(members, path, wanted):
                    assert shown.status == (503 if passive else 200)
            for shown in await on_all(members, "health/node-state"):
                assert shown.found == ("PASSIVE" if passive else "ACTIVE")
            written = written if passive else wanted
            assert {one.text for one in await on_all(members, "rest/maps/m/k")} == {written}


@pytest.mark.parametrize("wanted", ["frozen", "passive"])
async def test_who_was_never_there_does_not_join_a_cluster_that_is_frozen(
    tmp_path: Path, wanted: str
) -> None:
    made = Members(tmp_path, durable=True, most=4)
    async with made as members, HttpClient(members) as client:
        members.known[3] = 4
        await eventually(lambda: client.safe(0, 1, 2))
        assert (await state(members, 0, wanted)).status == 200
        members.start(3)
        assert await ended(members, 3) == [EXIT_START]
        assert any(wanted in entry["message"].lower() for entry in members.processes[3].log)
        assert [await client.size(number) for number in range(3)] == [3, 3, 3]
        await members.restart(1)  # who has left while it was so is one of it
        assert (await state(members, 1, "active")).status == 200
        members.start(3)
        await members.ready(3)
        assert await client.size(0) == 4


async def test_the_cluster_is_stopped_over_one_and_found_as_it_was(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=True) as members, HttpClient(members) as client:
        await eventually(client.safe)
        for number in range(ITEMS):
            assert await client.put(number % 3, f"map{number % 9}", f"k{number}", f"{number}")
            assert await client.offer(number % 3, f"queue{number % 4}", f"{number}")
        assert (await state(members, 0, "no_migration")).status == 200

        assert (await call(members, 1, f"{MANAGEMENT}/clusterShutdown")).found == SUCCESS

        assert await ended(members, 0, 1, 2) == [0, 0, 0]
        for number in range(3):
            members.start(number)
        await asyncio.gather(*map(members.ready, range(3)))
        for shown in await on_all(members, f"{MANAGEMENT}/state", "dev&"):
            assert shown.found == {**SUCCESS, "state": "no_migration"}
        for number in range(ITEMS):
            assert await client.get(number % 3, f"map{number % 9}", f"k{number}") == f"{number}"
            assert await client.poll(number % 3, f"queue{number % 4}", 0) == f"{number}"


async def test_a_member_that_is_stopped_hands_over_first(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=False) as members, HttpClient(members) as client:
        await eventually(client.safe)
        assert await client.put(2, "m", "k", "v")
        waiting = asyncio.ensure_future(call(members, 0, "rest/queues/q", "first"))
        assert (await waiting).status == 200
        assert await client.poll(2, "q", 0) == "first"
        polls = [asyncio.ensure_future(client.poll(2, "q", 30)) for _ in range(3)]
        usage = f"{MANAGEMENT}/usage"
        assert (await call(members, 2, usage, None)).status == 200  # which comes after the polls

        assert (await call(members, 2, f"{MANAGEMENT}/memberShutdown")).found == SUCCESS

        async with asyncio.timeout(PATIENCE_S / 4):
            assert set(await asyncio.gather(*polls)) <= {None, ""}
        for number in (0, 1):  # what it led has somebody else who leads it
            assert (await call(members, number, "rest/queues/q", f"from {number}")).status == 200
            assert (await call(members, number, "rest/maps/m/k", None)).text == "v"
        assert await ended(members, 2) == [0]
        assert [await client.poll(1, "q", 0) for _ in range(3)] == ["from 0", "from 1", ""]
        members.start(2)
        await members.ready(2)
        assert await client.get(2, "m", "k") == "v"


async def test_what_was_asked_of_one_is_not_done_again_by_another(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=False) as members, HttpClient(members) as client:
        await eventually(client.safe)
        first = await state(members, 0, "frozen", "once")
        again = [await state(members, number, "frozen", "once") for number in range(3)]
        assert {one.text for one in again} == {first.text}
        assert first.found["status"] == "success"
        assert (await state(members, 1, "frozen", "twice")).found["status"] == "fail"  # it is
        assert (await state(members, 1, "passive", "once")).status == 409  # another request
        assert (await state(members, 2, "active")).found["status"] == "success"
        assert (await state(members, 1, "frozen", "once")).text == first.text
        for shown in await on_all(members, f"{MANAGEMENT}/state", "dev&"):
            assert shown.found["state"] == "active"
        body = b'dev&&{"name":"r","batchPublishers":[{"clusterName":"a","targetEndpoints":"b"}]}'
        added = await once(members.rest_ports[0], "POST", "/grid/rest/wan/addWanConfig", body)
        assert added.status == 409
        assert "properties.realm is missing" in added.json["message"]


async def test_what_one_is_given_all_have(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=True, settings=CP)
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)
        text = "grid: {queue: {short: {max-size: 1}}}"
        added = await call(members, 0, "rest/config/upload", f"dev&&{text}")
        assert added.found["result"]["addedConfigs"] == [
            {"sectionName": "queue", "configName": "short"}
        ]
        assert (await call(members, 1, "rest/queues/short", "fits")).status == 200
        full = await on_all(members, "rest/queues/short", "does not")
        assert len({one.status for one in full}) == 1
        assert full[0].status != 200

        assert (await call(members, 1, "rest/license", "dev&&KEY")).status == 200
        licences = await on_all(members, "rest/license")
        assert len({one.text for one in licences}) == 1
        assert licences[0].found["licenseInfo"]["keyHash"]

        listed = "rest/config/tcp-ip/member-list"
        before = {tuple(one.found["member-list"]) for one in await on_all(members, listed)}
        assert len(before) == 1
        more = [*before.pop(), "127.0.0.1:1"]
        assert (await call(members, 2, listed, f"dev&&{', '.join(more)}")).status == 200
        for one in await on_all(members, listed):
            assert one.found["member-list"] == more

        for path, body in (
            (f"{MANAGEMENT}/version", None),
            (f"{MANAGEMENT}/operations", None),
            ("health/migration-queue-size", None),
        ):
            shown = await on_all(members, path, body)
            assert len({one.text for one in shown}) == 1, shown
            assert shown[0].status == 200
        for one in await on_all(members, f"{MANAGEMENT}/nodes", "dev&"):
            assert all(f":{port}" in one.text for port in members.rest_ports[:3])

        # After a restart of all it is there still.
        assert (await call(members, 0, f"{MANAGEMENT}/clusterShutdown")).status == 200
        assert await ended(members, 0, 1, 2) == [0, 0, 0]
        for number in range(3):
            members.start(number)
        await asyncio.gather(*map(members.ready, range(3)))
        assert {one.text for one in await on_all(members, "rest/license")} == {licences[0].text}
        full = await on_all(members, "rest/queues/short", "does not")
        assert {one.status for one in full} == {full[0].status}
        assert full[0].status != 200


async def test_sessions_are_leases_and_groups_of_maps_and_queues_are_only_read(
    tmp_path: Path,
) -> None:
    made = Members(tmp_path, durable=False, settings=CP)
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)

        async def sessions() -> list[str]:
            shown = await call(members, 0, f"{GROUPS}/default/sessions", None)
            # The group is founded a moment after the members are there.
            return sorted(one["endpoint"] for one in shown.found) if shown.status == 200 else []

        everybody = sorted(f"[{members.host(n)}]:{members.rest_ports[n]}" for n in range(3))

        async def all_have() -> bool:
            return await sessions() == everybody

        await eventually(all_have)
        groups = [one["name"] for one in (await call(members, 1, GROUPS, None)).found]
        of_data = [name for name in groups if name not in {"METADATA", "default"}]
        assert of_data
        assert await client.put(0, "m", "k", "v")
        for name in of_data:
            refused = await call(members, 2, f"{GROUPS}/{name}/remove")
            assert (refused.status, bool(refused.error or refused.text)) == (409, True)
        assert await client.get(2, "m", "k") == "v"

        assert (await call(members, 1, f"{GROUPS}/default/remove")).status == 200
        for shown in await on_all(members, f"{GROUPS}/default"):
            assert shown.status == 404
        for shown in await on_all(members, GROUPS):
            assert [one["name"] for one in shown.found] == [g for g in groups if g != "default"]
        await members.kill(2)

        async def two_have() -> bool:
            shown = await call(members, 0, f"{GROUPS}/{of_data[0]}/sessions", None)
            return len(shown.found) == 2

        await eventually(two_have)
