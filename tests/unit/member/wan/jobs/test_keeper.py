"""Promise: the oldest member notes the end of jobs and begins those of full queues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.cluster.values.operations import OperationStage
from grid_member.cluster.values.system_store import Put
from grid_member.engine.wan.agreement import PublisherState
from grid_member.wan.agreement.store import CLUSTER_ID, paused_put
from grid_member.wan.jobs.keeper import FORGOTTEN, RESHARDED, PublisherMaps
from grid_member.wan.jobs.records import Counts, MapResult, standing_of
from grid_member.wan.jobs.status import job_figures, jobs_document, operation_documents
from grid_member.wan.jobs.store import MAX_JOBS, SUPERSEDED
from grid_member.wan.members.reports import SenderReport, SenderReports
from grid_member.wan.ports import BusyError
from tests.unit.engine.wan.agreements import LONDON
from tests.unit.member.wan.jobs.agreed import (
    CHECK,
    CONFIG,
    SYNC,
    Agreed,
    begin,
    found,
    keeper,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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
        agreed.agree()
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


def of_a_restored_cluster(agreed: Agreed) -> None:
    agreed.put(paused_put(LONDON))


def of_a_backup_before_the_members_agree(agreed: Agreed) -> None:
    agreed.put(Put(CLUSTER_ID, None))


def paused_on_all_members(agreed: Agreed) -> None:
    for member in agreed.live_with_data:
        agreed.set_state(member, PublisherState.PAUSED)


def stopped_on_all_members(agreed: Agreed) -> None:
    for member in agreed.live_with_data:
        agreed.set_state(member, PublisherState.STOPPED)


def paused_from_the_begin(agreed: Agreed) -> None:
    agreed.agree(replace(CONFIG, initial_publisher_state="PAUSED"))


def replicating_on_a_member_without_data(agreed: Agreed) -> None:
    agreed.live_with_data = ["a"]
    agreed.set_state("a", PublisherState.PAUSED)


def replicating_on_a_member_without_credentials(agreed: Agreed) -> None:
    agreed.set_state("a", PublisherState.PAUSED)
    SenderReports(agreed.kept).tell(LONDON, "b", SenderReport(able=False))


SILENT: Final = (
    of_a_restored_cluster,
    of_a_backup_before_the_members_agree,
    paused_on_all_members,
    stopped_on_all_members,
    paused_from_the_begin,
    replicating_on_a_member_without_data,
    replicating_on_a_member_without_credentials,
)


@pytest.mark.parametrize("silence", SILENT, ids=lambda silence: silence.__name__)
async def test_no_job_begins_by_itself_until_the_publisher_is_resumed(
    silence: Callable[[Agreed], None],
) -> None:
    agreed = Agreed()
    agreed.full = ["m"]
    silence(agreed)
    jobs, _ = keeper(agreed)
    await jobs.look()
    assert jobs.store.jobs() == []
    agreed.put(*agreed.stored.resuming_puts(LONDON), Put(CLUSTER_ID, b"00"))
    agreed.set_state("a", PublisherState.REPLICATING)
    await jobs.look()
    (job,) = jobs.store.jobs()
    assert job.maps == ("m",)


async def test_a_paused_publisher_is_synchronised_when_that_is_asked_for() -> None:
    agreed = Agreed()
    paused_on_all_members(agreed)
    jobs, _ = keeper(agreed)
    assert not (await begin(jobs)).ended


async def test_the_configuration_says_how() -> None:
    agreed = Agreed()
    agreed.agree(replace(CONFIG, consistency_check_strategy="NONE"))
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


async def test_without_the_lock_no_job_begins_by_itself_or_ends() -> None:
    agreed = Agreed()
    agreed.full, agreed.refuses_lock = ["m"], True
    jobs, _ = keeper(agreed)
    await jobs.look()
    assert jobs.store.jobs() == []
    job = await begin(jobs)
    share(jobs, job, 0, ended=True)
    share(jobs, job, 1, ended=True)
    await jobs.look()
    assert not found(jobs, job).ended
    agreed.refuses_lock = False
    await jobs.look()
    assert found(jobs, job).error == ""


@pytest.mark.parametrize("another", [True, False])
async def test_a_job_that_is_not_noted_as_the_running_one_ends(another: bool) -> None:
    """A member of an earlier version may have left one."""
    jobs, kept = keeper(Agreed())
    stray = await begin(jobs)
    share(jobs, stray, 0, done=50)
    running_key = next(key for key in kept.items if "running" in key)
    kept.items.pop(running_key)
    job = await begin(jobs) if another else None
    await jobs.look()
    ended = found(jobs, stray)
    assert ended.error == (SUPERSEDED if another else FORGOTTEN)
    assert not [key for key in kept.items if f"share/{stray.uuid}" in key]
    assert jobs.store.running(LONDON) == job


async def test_an_ended_job_is_not_the_running_one() -> None:
    jobs, kept = keeper(Agreed())
    job = await begin(jobs)
    running = {key: value for key, value in kept.items.items() if "running" in key}
    for put in jobs.failing_puts(LONDON):
        put.send(kept)
    kept.items.update(running)
    assert jobs.store.running(LONDON) is None
    assert found(jobs, job).error == "the publisher was removed"
