"""Members with copies of their own, and without: when they are ready, and what they lose."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)


async def test_members_in_memory_restarted_by_readiness_alone_lose_nothing(tmp_path: Path) -> None:
    async with (
        Members(tmp_path, durable=False) as members,
        HttpClient(members) as client,
    ):
        for number in range(200):
            assert await client.put(0, f"m{number}", "k", "x" * 20_000)
            assert await client.offer(0, f"q{number % 9}", str(number))
        async with Load(client, members.size) as load:
            for victim in range(members.size):
                await eventually(lambda victim=victim: client.healthy(victim, "ready"))  # type: ignore[misc]
                await load.progress()
                begun_s = time.monotonic()
                await members.kill(victim)
                members.start(victim)
                await eventually(lambda victim=victim: client.healthy(victim, "ready"))  # type: ignore[misc]
                load.crashed(victim, begun_s)
            await load.progress()
            history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)
        for number in range(200):
            assert await client.get(number % 3, f"m{number}", "k") == "x" * 20_000
        items = [await client.poll(1, f"q{number % 9}", 1) for number in range(200)]
        assert sorted(map(str, items)) == sorted(map(str, range(200)))


async def test_a_lite_member_serves_all_and_holds_nothing(tmp_path: Path) -> None:
    lite = 2
    async with (
        Members(tmp_path, durable=True, lite=(lite,)) as members,
        HttpClient(members) as client,
        Load(client, members.size) as load,
    ):
        await load.progress()
        await eventually(client.safe)
        client.patient = True
        await members.restart(lite)
        await load.progress()
        assert client.failed == []
        assert await client.healthy(lite, "ready")
        await eventually(client.safe)
        history = await load.drained()
    held = [bool([*(tmp_path / f"m{number}").rglob("*.blk")]) for number in range(members.size)]
    assert held == [True, True, False]
    faults = history.faults()
    assert not faults, told(faults)


async def test_two_members_and_one_that_comes_later_have_a_third_copy(tmp_path: Path) -> None:
    async with (
        Members(tmp_path, durable=False, size=2, most=3) as members,
        HttpClient(members) as client,
    ):
        assert await client.put(0, "a", "k", "v")
        members.known[2] = 3
        members.start(2)
        await members.ready(2)
        await eventually(client.safe)
        # Both others may go now: one after the other.
        await members.kill(0)
        await eventually(lambda: _reads(client, 2, "v"))


async def _reads(client: HttpClient, member: int, value: str) -> bool:
    return await client.get(member, "a", "k") == value
