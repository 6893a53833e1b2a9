"""Promise: members that begin and end jobs at the same time leave none that never ends."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.cluster.values.system_store import put_all
from grid_member.wan.agreement.calls import WanCalls, WanConflictError
from grid_member.wan.jobs.keeper import PublisherMaps
from grid_member.wan.jobs.records import Share
from grid_member.wan.jobs.store import JobStore
from tests.unit.engine.wan.agreements import LONDON
from tests.unit.member.wan.jobs.agreed import SYNC, Agreed, keeper
from tests.unit.member.wan.jobs.clusters import LateStore
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.wan.jobs.keeper import JobKeeper
    from grid_member.wan.jobs.records import Job


class Members:
    """Two members that both hold themselves for the oldest, and a third one that is called."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.agreed = Agreed(LateStore(lambda: self.chance.randrange(12)))
        self.store = JobStore(self.agreed.kept)
        self.keepers = [self._keeper("one"), self._keeper("two")]
        self.called = self._keeper("called")
        self.asked_for: list[str] = []

    def _keeper(self, name: str) -> JobKeeper:
        made, _ = keeper(self.agreed, name)
        made.asks = lambda: self._ask
        return made

    async def _ask(self, publisher: object, name: str) -> PublisherMaps:
        await self.pause()
        return PublisherMaps(1, holds=True, replicated=True, comparing=tuple(self.agreed.full))

    async def pause(self, most: int = 6) -> None:
        for _ in range(self.chance.randrange(most)):
            await asyncio.sleep(0)

    async def look(self, jobs: JobKeeper) -> None:
        for _ in range(20):
            await jobs.look()
            await self.pause(20)

    async def call(self) -> None:
        calls = WanCalls(cast("Any", self.agreed), cast("Any", None), self.called)
        for _ in range(20):
            await self.pause(40)
            async with self.agreed.lock():
                try:
                    uuid, puts = await calls.begin_job(SYNC, LONDON, "m")
                except WanConflictError:
                    continue
                await put_all(self.agreed.kept, puts)
                self.asked_for.append(uuid)

    async def work(self) -> None:
        """Carry out the job that is under way."""
        while True:
            await self.pause(30)
            job = self.store.running(LONDON)
            if job is not None:
                put = self.store.share_put(job, 0, replace(Share(1, 1), ended=True))
                await put_all(self.agreed.kept, [put])
            await asyncio.sleep(0)

    def open(self) -> list[Job]:
        return [job for job in self.store.jobs() if not job.ended]


@pytest.mark.parametrize("seed", range(20))
async def test_every_job_ends_and_none_takes_the_place_of_one_that_was_asked_for(
    seed: int,
) -> None:
    members = Members(seed)
    await until(lambda: members.agreed.stored.config is not None)
    members.agreed.full = ["m"]
    working = asyncio.create_task(members.work())
    try:
        await asyncio.gather(members.call(), *map(members.look, members.keepers))
        members.agreed.full = []
        for _ in range(10):
            await members.look(members.keepers[0])
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert members.open() == []
    assert members.asked_for
    assert {job.error for job in members.store.jobs()} == {""}
