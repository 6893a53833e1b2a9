"""The clients of the fault tests, with members that are none."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.cluster.checker import NOTHING
from tests.unit.engine.cluster.load import QUEUES, Load
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from tests.unit.engine.cluster.checker import Span

BACKLOG: Final = 300


class Queues:
    """Members with queues, of which one is out of reach of polls for now."""

    def __init__(self) -> None:
        self.lost_polls: list[Span] = []
        self.shut = True
        self.loses = ""
        """An item that is answered, and not there."""
        self.items: defaultdict[str, deque[str]] = defaultdict(deque)

    async def put(self, member: int, name: str, key: str, value: str) -> bool | None:
        return True

    async def get(self, member: int, name: str, key: str) -> str | None:
        return NOTHING

    async def offer(self, member: int, name: str, value: str) -> bool | None:
        if value != self.loses:
            self.items[name].append(value)
        return True

    async def poll(self, member: int, name: str, timeout_s: int) -> str | None:
        if self.shut and name == QUEUES[0]:
            return None
        if self.items[name]:
            return self.items[name].popleft()
        await asyncio.sleep(timeout_s)
        return NOTHING


async def test_what_one_queue_kept_is_taken_though_the_others_are_empty() -> None:
    queues = Queues()
    async with Load(queues, 3) as load:
        await condition(lambda: len(queues.items[QUEUES[0]]) >= BACKLOG)
        queues.shut = False
        history = await load.drained()
    offered = {(one.producer, one.number) for one in history.offers}
    assert offered == {(one.producer, one.number) for one in history.deliveries}


async def test_an_item_that_is_never_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues()
    queues.shut, queues.loses = False, f"{QUEUES[1]}-1:2"
    async with Load(queues, 3) as load:
        await load.progress()
        monkeypatch.setattr("tests.unit.engine.cluster.load.PATIENCE_S", 0.5)
        with pytest.raises(AssertionError, match=f"\n{queues.loses} answered "):
            await load.drained()
