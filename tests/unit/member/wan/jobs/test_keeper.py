"""Promise: the oldest member notes the end of jobs and begins those of full queues."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from grid_member.cluster.values.operations import OperationStage
from grid_member.config.model.wan import WanPublisherConfig
from grid_member.wan.jobs.keeper import RESHARDED, JobKeeper, PublisherMaps
from grid_member.wan.jobs.records import Counts, Job, JobKind, MapResult, Share, standing_of
from grid_member.wan.jobs.status import job_figures, jobs_document, operation_documents
from grid_member.wan.jobs.store import MAX_JOBS, SUPERSEDED
from grid_member.wan.ports import BusyError
from tests.unit.engine.wan.agreements import LONDON
from tests.unit.member.wan.jobs.clusters import FakeStore

SYNC, CHECK = JobKind.SYNC, JobKind.CHECK
CONFIG: Final = WanPublisherConfig("london", "london", (("127.0.0.1", 5705),))


@dataclass
class Section:
    """What the members agreed on."""

    found: WanPublisherConfig | None = CONFIG
    replications: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {LONDON.replication: {LONDON.publisher: {}}}
    )

    def publisher(self, name: object) -> WanPublisherConfig | None:
        return self.found if name == LONDON else None


class Agreed:
    """The agreement and the shards as a member sees them."""

    def __init__(self) -> None:
        self.section = Section()
        self.config = self
        self.stored = self
        self.shards = self
        self.own_uuid = "a"
        self.member_uuids = ["a", "b"]
        self.number = 2
        self.held = {"m"}
        self.full: list[str] = []

    def holds(self, name: str) -> bool:
        return name in self.held

    def replicated(self, publisher: object) -> bool:
        return bool(self.held)

    def comparing(self, publisher: object) -> list[str]:
        return self.full


def keeper(agreed: Agreed) -> tuple[JobKeeper, FakeStore]:
    kept, found = FakeStore(), iter(range(1000))
    times = iter(range(1000, 100_000))
    any_agreed: Any = agreed
    made = JobKeeper(kept, any_agreed, lambda: next(times), lambda: f"job-{next(found):03d}")
    made.connected = lambda _: True
    return made, kept


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


async def test_a_job_ends_when_all_shares_have() -> None:
    jobs, kept = keeper(Agreed())
    job = await begin(jobs)
    result = MapResult("m", Counts(entries=100, sent=3, missing=3))
    share(jobs, job, 0, ended=True, done=100, results=(result,))
    await jobs.look()
    assert standing_of(job, jobs.store.shares(job)).stage is OperationStage.STARTED
    share(jobs, job, 1, done=99)
    await jobs.look()
    standing = standing_of(job, jobs.store.shares(job))
    assert (standing.stage, standing.progress) == (OperationStage.IN_PROGRESS, 99)
    assert job_figures(jobs.store, LONDON).progress == 0.99
    share(jobs, job, 1, done=100, ended=True)
    await jobs.look()
    ended = found(jobs, job)
    assert (ended.error, ended.progress, ended.results) == ("", 100, (result,))
    assert jobs.store.running(LONDON) is None
    assert not [key for key in kept.items if "share" in key]
    (shown,) = jobs_document(jobs.store, LONDON)["lastSyncs"]
    assert (shown["map"], shown["missing"], shown["uuid"]) == ("m", 3, job.uuid)
    (operation,) = operation_documents(jobs.store)
    assert (operation["stage"], operation["error"]) == ("FINISHED", None)


async def test_a_share_that_failed_fails_the_job() -> None:
    jobs, _ = keeper(Agreed())
    job = await begin(jobs)
    share(jobs, job, 0, ended=True, done=100)
    share(jobs, job, 1, ended=True, done=20, error="map m: too large")
    await jobs.look()
    ended = found(jobs, job)
    assert (ended.error, ended.progress) == ("map m: too large", 60)


@pytest.mark.parametrize("what", ["removed", "resharded"])
async def test_a_job_ends_with_what_it_is_about(what: str) -> None:
    agreed = Agreed()
    jobs, _ = keeper(agreed)
    job = await begin(jobs)
    if what == "removed":
        agreed.section.found = None
    else:
        agreed.number = 3
    await jobs.look()
    wanted = "the publisher was removed" if what == "removed" else RESHARDED
    assert found(jobs, job).error == wanted


async def test_only_the_oldest_member_looks() -> None:
    agreed = Agreed()
    agreed.own_uuid, agreed.full = "b", ["m"]
    jobs, _ = keeper(agreed)
    await jobs.look()
    assert jobs.store.jobs() == []


async def test_a_full_queue_begins_a_job_once_the_target_answers() -> None:
    agreed = Agreed()
    agreed.full = [f"m{number:03d}" for number in range(100)]
    jobs, _ = keeper(agreed)
    jobs.connected = lambda _: False
    await jobs.look()
    assert jobs.store.jobs() == []
    jobs.connected = lambda _: True
    await jobs.look()
    await jobs.look()
    (job,) = jobs.store.jobs()
    assert (job.maps, job.reason, job.full) == (tuple(agreed.full[:64]), "a queue was full", False)


async def test_the_configuration_says_how() -> None:
    agreed = Agreed()
    agreed.section.found = replace(CONFIG, consistency_check_strategy="NONE")
    jobs, _ = keeper(agreed)
    assert not jobs.compares(LONDON)
    assert (await begin(jobs)).full


async def test_what_no_shard_holds() -> None:
    jobs, _ = keeper(Agreed())
    job = await begin(jobs, SYNC, "absent")
    assert (job.ended, job.progress) == (True, 100)
    assert jobs.store.running(LONDON) is None
    job = await begin(jobs, CHECK, "absent")
    assert (job.ended, job.absent) == (False, "absent"), "the target may have what is lost here"


async def test_a_member_that_lacks_shards_asks_one_that_has_all() -> None:
    agreed = Agreed()
    agreed.held.clear()
    agreed.number = 1
    jobs, _ = keeper(agreed)
    asked: list[tuple[object, str]] = []

    async def ask(publisher: object, name: str) -> PublisherMaps:
        asked.append((publisher, name))
        return PublisherMaps(2, holds=True, replicated=True, comparing=("full",))

    jobs.asks = lambda: ask
    job = await begin(jobs)
    assert (job.ended, job.lanes, asked) == (False, 2, [(LONDON, "m")])
    await jobs.look()
    assert not found(jobs, job).ended, "the member knows that it does not know all shards"
    share(jobs, job, 0, ended=True)
    share(jobs, job, 1, ended=True)
    await jobs.look()
    running = jobs.store.running(LONDON)
    assert running is not None
    assert running.maps == ("full",)


async def test_without_a_member_that_has_all_shards_no_job_begins() -> None:
    jobs, _ = keeper(Agreed())

    async def ask(publisher: object, name: str) -> PublisherMaps:
        raise BusyError("no member that holds the data answers")

    jobs.asks = lambda: ask
    with pytest.raises(BusyError):
        await begin(jobs)
    await jobs.look()
    assert jobs.store.jobs() == []


async def test_a_hundred_jobs_are_remembered() -> None:
    jobs, _ = keeper(Agreed())
    first = await begin(jobs, SYNC, "absent")
    for _ in range(MAX_JOBS):
        await begin(jobs, SYNC, "absent")
    assert len(jobs.store.jobs()) == MAX_JOBS
    assert jobs.store.find(first.uuid) is None


async def test_a_job_that_another_one_takes_the_place_of_has_failed() -> None:
    """Calls are refused meanwhile; members that race do not leave one that never ends."""
    jobs, _ = keeper(Agreed())
    former, job = await begin(jobs), await begin(jobs)
    assert found(jobs, former).error == SUPERSEDED
    running = jobs.store.running(LONDON)
    assert running is not None
    assert running.uuid == job.uuid
