"""The agreement in memory, and what the jobs of members that go by it are."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from grid_member.cluster.membership.locks import LockedError
from grid_member.cluster.values.system_store import Put
from grid_member.config.model.wan import WanPublisherConfig
from grid_member.wan.agreement.definitions import publisher_document
from grid_member.wan.agreement.sections import Section
from grid_member.wan.agreement.store import CLUSTER_ID, StoredConfig, WanStore, state_put
from grid_member.wan.jobs.keeper import JobKeeper
from grid_member.wan.jobs.records import Job, JobKind, Share
from tests.unit.engine.wan.agreements import LONDON
from tests.unit.member.wan.jobs.clusters import FakeStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_member.engine.wan.agreement import PublisherState

SYNC, CHECK = JobKind.SYNC, JobKind.CHECK
CONFIG: Final = WanPublisherConfig("london", "london", (("127.0.0.1", 5705),))


class Agreed:
    """The agreement and the shards as a member sees them."""

    def __init__(self, kept: FakeStore | None = None) -> None:
        self.kept = kept or FakeStore()
        self.locked = asyncio.Lock()
        self.stored = WanStore(self.kept)
        self.shards = self
        self.own_uuid = "a"
        self.member_uuids = ["a", "b"]
        self.live_with_data = ["a", "b"]
        self.number = 2
        self.held = {"m"}
        self.full: list[str] = []
        self.refuses_lock = False
        self.put(Put(CLUSTER_ID, b"00"))
        self.agree(CONFIG)

    def put(self, *puts: Put) -> None:
        for put in puts:
            put.send(self.kept)

    def agree(self, *publishers: WanPublisherConfig) -> None:
        found = {each.publisher_id: publisher_document(each) for each in publishers}
        section = Section({"m": {}}, {LONDON.replication: found}, 1, 1, 1)
        self.put(StoredConfig(1, section).put())

    def set_state(self, member: str, state: PublisherState) -> None:
        self.put(state_put(LONDON, member, state))

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        if self.refuses_lock:
            raise LockedError
        async with self.locked:
            yield

    def holds(self, name: str) -> bool:
        return name in self.held

    def replicated(self, publisher: object) -> bool:
        return bool(self.held)

    def comparing(self, publisher: object) -> list[str]:
        return self.full


def keeper(agreed: Agreed, name: str = "job") -> tuple[JobKeeper, FakeStore]:
    found = iter(range(1000))
    times = iter(range(1000, 100_000))
    any_agreed: Any = agreed
    made = JobKeeper(
        agreed.kept, any_agreed, lambda: next(times), lambda: f"{name}-{next(found):03d}"
    )
    made.connected = lambda _: True
    return made, agreed.kept


async def begin(jobs: JobKeeper, kind: JobKind = SYNC, name: str = "m") -> Job:
    job = await jobs.new_job(kind, LONDON, name)
    for put in jobs.store.begin_puts(job):
        put.send(jobs.store.system)
    return job


def share(jobs: JobKeeper, job: Job, lane: int, **fields: Any) -> None:
    jobs.store.share_put(job, lane, replace(Share(100, 7), **fields)).send(jobs.store.system)


def found(jobs: JobKeeper, job: Job) -> Job:
    again = jobs.store.find(job.uuid)
    assert again is not None
    return again
