"""Promise: whichever members send a shard, one after the other or at once, nothing is lost."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from grid_member.wan.figures import PublisherFigures
from grid_member.wan.ports import OverloadedError, UnreachableError
from tests.unit.member.wan.batches import put, removal
from tests.unit.member.wan.fakes import FakeQueues, FakeTarget, sender_on
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    from grid_member.wan.link import Link

MEMBERS = tuple(bytes([number]) * 16 for number in range(3))
KEYS = 30
STEPS = 80


@dataclass
class Members:
    """Members that share the queues of a shard, and each begin and end sending by chance."""

    chance: random.Random
    queues: FakeQueues = field(default_factory=FakeQueues)
    target: FakeTarget = field(default_factory=FakeTarget)
    running: dict[int, tuple[asyncio.Task[None], Link]] = field(default_factory=dict)

    def begin(self, member: int) -> None:
        if member not in self.running:
            sending = self.chance.choice((3, 10)), 0.2, self.chance.choice((-1, 3))
            sender, link = sender_on(self.queues, self.target, PublisherFigures(), sending)
            self.running[member] = asyncio.create_task(sender.run()), link

    async def end(self, member: int) -> None:
        if member in self.running:
            task, link = self.running.pop(member)
            task.cancel()
            link.close()
            await asyncio.gather(task, return_exceptions=True)

    def write(self, stamp: int) -> tuple[tuple[str, str], int]:
        key = f"k{self.chance.randrange(KEYS)}"
        change = self.chance.choice((put, removal))("orders", key, stamp)
        self.queues.add(change, self.chance.choice(MEMBERS))
        return ("orders", key), stamp

    async def step(self) -> None:
        """Let something happen to the senders or the line."""
        member, chance = self.chance.randrange(len(MEMBERS)), self.chance.random()
        if chance < 0.3:
            self.begin(member)
        elif chance < 0.5:
            await self.end(member)
        elif chance < 0.6:
            self.target.faults.append(UnreachableError("cut"))
            self.target.loses_answers = self.chance.random() < 0.5
        elif chance < 0.65:
            self.target.faults.append(OverloadedError("full", 1.0))
        elif chance < 0.7:
            self.queues.refuses_acknowledgements = not self.queues.refuses_acknowledgements
        await asyncio.sleep(self.chance.random() * 0.1)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_lost_when_senders_change(seed: int) -> None:
    async def scene() -> None:
        members = Members(random.Random(seed))
        members.target.chance = lambda: members.chance.random() * 0.1
        last: dict[tuple[str, str], int] = {}
        for stamp in range(1, STEPS + 1):
            key, written = members.write(stamp)
            last[key] = written
            await members.step()
        members.target.faults.clear()
        members.queues.refuses_acknowledgements = False
        for member in range(len(MEMBERS)):
            await members.end(member)
        members.begin(0)
        deadline_s = asyncio.get_running_loop().time() + 300
        while not members.queues.empty:
            await asyncio.sleep(0.05)
            assert asyncio.get_running_loop().time() < deadline_s, "it never became empty"
        await members.end(0)
        assert members.target.stamps == last

    play(scene())
