"""Promise: one member and three, both on disks, have the same when all of one side was away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.processes.wan.sites import MAPS, entries, pair, start

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)
KEYS = [f"k{number}" for number in range(50)]


async def test_what_is_queued_survives_restarts_of_both_sides(tmp_path: Path) -> None:
    tokyo, london = pair(
        tmp_path, {"size": 1, "most": 1, "durable": True}, {"size": 3, "most": 3, "durable": True}
    )
    try:
        await start(tokyo, london)
        await london.put(1, "orders", "removed", b"x")
        await tokyo.until_value(0, "orders", "removed", b"x")
        await london.kill(0, 1, 2)
        for name in MAPS:
            for key in KEYS:
                await tokyo.put(0, name, key, b"t")
        await tokyo.remove(0, "orders", "removed")
        await tokyo.kill(0)
        for number in range(3):
            london.start(number)
        await asyncio.gather(*(london.ready(number) for number in range(3)))
        await london.put(2, "cities", "l", b"l")
        tokyo.start(0)
        await tokyo.ready(0)
        await tokyo.until_value(0, "cities", "l", b"l")
        await asyncio.gather(tokyo.quiet(), london.quiet(2))
        for name in MAPS:
            assert await entries(london, 1, name, KEYS) == dict.fromkeys(KEYS, b"t")
        assert await london.get(0, "orders", "removed") is None
    finally:
        await asyncio.gather(*(site.__aexit__() for site in (tokyo, london)))
