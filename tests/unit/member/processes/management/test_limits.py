"""Limits of maps and queues hold over three processes as over one, whoever is asked."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.member.processes.management.test_managed import call
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

IDLE_S: Final = 4
KEPT_S: Final = 3 * IDLE_S
"""How long an entry is read that lives for a third of that without."""
READ_EVERY_S: Final = IDLE_S / 8
FEW: Final = 20
MANY: Final = 5 * FEW
ROOM: Final = 7
LONG_IDLE_S: Final = 24
READ_AFTER_S: Final = 0.2 * LONG_IDLE_S
"""Of a read of which the log does not hear at once: that is from a quarter of the time on."""
LOOK_AFTER_S: Final = 1.05 * LONG_IDLE_S
"""When the entry would be over without that read; a slow machine has 15 % of the time from then."""
HEARD_S: Final = 3.0
"""Reads count for an eviction after a second."""
MAPS: Final = (
    f", idle: {{max-idle-seconds: {IDLE_S}}}, long: {{max-idle-seconds: {LONG_IDLE_S}}}"
    f", few: {{eviction: {{eviction-policy: LRU, max-size-policy: PER_NODE, size: {FEW}}}}}"
    f", often: {{eviction: {{eviction-policy: LFU, max-size-policy: PER_NODE, size: {FEW}}}}}"
)
pytestmark = pytest.mark.timeout(240)


async def test_what_is_read_on_one_member_is_idle_on_none(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=False, maps=MAPS)
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)
        for key in ("read", "left"):
            assert await client.put(0, "idle", key, "v")
        until_s = time.monotonic() + KEPT_S
        while time.monotonic() < until_s:
            assert await client.get(1, "idle", "read") == "v"
            await asyncio.sleep(READ_EVERY_S)
        assert [await client.get(number, "idle", "left") for number in range(3)] == ["", "", ""]
        assert [await client.get(number, "idle", "read") for number in range(3)] == ["v", "v", "v"]

        async def is_gone() -> bool:
            await asyncio.sleep(2 * IDLE_S)  # to look more often would keep it
            return await client.get(2, "idle", "read") == ""

        await eventually(is_gone)
        assert [await client.get(number, "idle", "read") for number in range(3)] == ["", "", ""]


async def test_one_read_on_another_member_keeps_an_entry(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=False, maps=MAPS)
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)
        assert await client.put(0, "long", "read", "v")
        written_s = time.monotonic()
        await asyncio.sleep(READ_AFTER_S)
        assert await client.get(1, "long", "read") == "v"
        await asyncio.sleep(written_s + LOOK_AFTER_S - time.monotonic())
        found = [await client.get(number, "long", "read") for number in range(3)]
        assert found == ["v", "v", "v"]


async def test_reads_save_from_eviction_whoever_writes(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=False, maps=MAPS)
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)
        for number in range(FEW):
            for name in ("few", "often"):
                assert await client.put(0, name, f"k{number}", "v")
        for name in ("few", "often"):
            assert await client.get(1, name, "k0") == "v"
        await asyncio.sleep(HEARD_S)  # nothing shows that the log has heard of them
        for number in range(FEW, MANY):
            assert await client.put(0, "often", f"k{number}", "v")
        for number in range(FEW, 2 * FEW - 1):
            assert await client.put(0, "few", f"k{number}", "v")
        for name in ("few", "often"):
            assert [await client.get(number, name, "k0") for number in range(3)] == ["v", "v", "v"]
            assert [await client.get(number, name, "k1") for number in range(3)] == ["", "", ""]


async def kept(client: HttpClient, member: int) -> list[str]:
    """Return the keys of the map that is bounded that a member has."""
    keys = [f"k{number}" for number in range(MANY)]
    found = await asyncio.gather(*(client.get(member, "few", key) for key in keys))
    assert None not in found
    return [key for key, value in zip(keys, found, strict=True) if value]


async def test_the_same_entries_give_way_on_all_members(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=True, maps=MAPS)
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)
        for number in range(MANY):
            assert await client.put(number % 3, "few", f"k{number}", f"{number}")
        first = await kept(client, 0)
        assert len(first) == FEW
        assert [await kept(client, number) for number in range(3)] == [first] * 3

        await members.kill(1)
        client.patient = True
        for number in range(FEW // 2):
            assert await client.put((0, 2)[number % 2], "few", f"k{number}", "again")
        members.start(1)
        await members.ready(1)
        second = await kept(client, 1)
        assert len(second) == FEW
        assert f"k{FEW // 2 - 1}" in second  # the last one; what others had read counts, too
        assert [await kept(client, number) for number in range(3)] == [second] * 3


async def test_a_queue_never_holds_more_than_it_may_whoever_offers(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=False) as members, HttpClient(members) as client:
        await eventually(client.safe)
        text = f"grid: {{queue: {{short: {{max-size: {ROOM}}}}}}}"
        assert (await call(members, 0, "rest/config/upload", f"dev&&{text}")).status == 200
        offers = [
            call(members, number % 3, "rest/queues/short", f"{number}")
            for number in range(6 * ROOM)
        ]
        answers = await asyncio.gather(*offers)
        taken = [number for number, answer in enumerate(answers) if answer.status == 200]
        assert len(taken) == ROOM
        refused = {answer.error for answer in answers if answer.status != 200}
        assert len(refused) == 1, refused
        assert "full" in refused.pop()
        for number in range(3):
            shown = await call(members, number, "rest/queues/short/size", None)
            assert shown.text == f"{ROOM}"

        await members.kill(2)

        async def refuses() -> bool:
            answer = await call(members, 0, "rest/queues/short", "more")
            assert answer.status != 200
            return "full" in answer.error

        await eventually(refuses)
        client.patient = True
        found = [await client.poll(number % 2, "short", 1) for number in range(ROOM)]
        assert sorted(map(int, filter(None, found))) == taken
        assert await client.poll(1, "short", 0) == ""
        assert await client.offer(0, "short", "room")
