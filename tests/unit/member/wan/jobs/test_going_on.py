"""Promise: a job goes on after whatever stopped it, its progress never falls, and it ends."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.cluster.values.operations import OperationStage
from grid_member.engine.state.operations import MapClear, MapPut, WanAgree, WanDropQueue
from grid_member.wan.jobs import lane as lane_module
from grid_member.wan.jobs.records import JobKind, ended_job, standing_of
from grid_member.wan.jobs.runner import LaneJobs, ShareWork
from grid_member.wan.link import CHANGES_PATH
from tests.unit.engine.wan.agreements import LONDON, MAP, MEMBERS, agreement
from tests.unit.member.wan.jobs.clusters import (
    UUID_OF_JOB,
    Cluster,
    Pair,
    pair,
    receiver_of,
)
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Refused
    from grid_member.wan.jobs.lane import Lane
    from grid_member.wan.jobs.records import Job, Share
    from grid_member.wan.jobs.store import JobStore

SYNC, CHECK = JobKind.SYNC, JobKind.CHECK
ENTRIES: Final = 6000


def fill(clusters: Pair, entries: int = ENTRIES) -> None:
    for number in range(entries):
        clusters.source.apply(MapPut(MAP, f"key-{number}", b"%d" % number, None, 0))
    clusters.source.apply(WanDropQueue(LONDON, MEMBERS[0]))


def note_progress(clusters: Pair) -> list[int]:
    """Return the list to which the progress of the job is added whenever it is stored."""
    found: list[int] = []
    put = clusters.kept.system_put

    def noting(
        key: str,
        value: bytes | None,
        done: Callable[[Refused | None], None],
        *,
        time_to_live_s: int = 0,
    ) -> None:
        put(key, value, done)
        job = clusters.store.find(UUID_OF_JOB)
        if job is not None and clusters.store.shares(job):
            found.append(standing_of(job, clusters.store.shares(job)).progress)

    clusters.kept.system_put = noting  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("full", [False, True])
def test_it_goes_on_after_cuts(full: bool) -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            chance = random.Random(1)
            clusters.line.fails = lambda _: chance.random() < 0.3
            progress = note_progress(clusters)
            job = await clusters.run(SYNC, full=full)
            assert job.error == ""
            assert clusters.target.values == clusters.source.values
            assert not clusters.source.unsynced
            assert progress == sorted(progress)
            assert clusters.target.merged < 2 * ENTRIES, "what had arrived is not sent again"

    play(scene())


@pytest.mark.parametrize("full", [False, True])
def test_nothing_is_sent_while_a_backup_is_cut(full: bool) -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters, 100)
            clusters.source.held = True
            clusters.note(SYNC, full=full)
            ending = asyncio.create_task(clusters.until_ended())
            await asyncio.sleep(5.0)
            assert not clusters.target.merged
            clusters.source.held = False
            await ending
            assert clusters.target.values == clusters.source.values

    play(scene())


@pytest.mark.parametrize("full", [False, True])
def test_another_member_goes_on_where_the_one_before_was_killed(full: bool) -> None:
    async def scene() -> None:
        async with pair(batch_size=300) as clusters:
            fill(clusters)
            progress = note_progress(clusters)
            clusters.note(SYNC, full=full)
            kills = 0
            while (share := clusters.share()) is None or not share.ended:
                killed = asyncio.Event()
                clusters.line.on_request = _after(3 + kills % 4, killed)
                running = asyncio.create_task(LaneJobs(clusters.lane, clusters.store).run())
                await asyncio.wait(
                    {running, asyncio.create_task(killed.wait())},
                    timeout=60,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                kills += 1
                assert kills < 50
            assert kills > 2
            assert share.error == ""
            assert clusters.target.values == clusters.source.values
            assert not clusters.source.unsynced
            assert progress == sorted(progress)
            assert clusters.target.merged < 2 * ENTRIES

    play(scene())


def test_a_job_that_begins_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the member that goes on forgets what was done."""

    def forget(work: ShareWork, lane: Lane, store: JobStore, job: Job, _: Share | None) -> None:
        begin(work, lane, store, job, None)

    begin = ShareWork.__init__
    monkeypatch.setattr(ShareWork, "__init__", forget)
    with pytest.raises(AssertionError):
        test_another_member_goes_on_where_the_one_before_was_killed(full=True)


def test_two_members_at_once_do_no_harm() -> None:
    """The one before may live when another takes its place."""

    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            progress = note_progress(clusters)
            clusters.note(SYNC)
            slow = asyncio.create_task(LaneJobs(clusters.lane, clusters.store).run())
            await asyncio.sleep(0.001)
            await clusters.until_ended()
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            assert clusters.target.values == clusters.source.values
            assert not clusters.source.unsynced
            assert progress == sorted(progress)

    play(scene())


def _after(requests: int, killed: asyncio.Event) -> Callable[[str], None]:
    left = requests

    def count(path: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            killed.set()

    return count


def test_writes_meanwhile_are_queued_and_not_lost() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            number = 0

            def write(path: str) -> None:
                nonlocal number
                for _ in range(20):
                    number += 7
                    key = f"key-{number % (2 * ENTRIES)}"
                    clusters.source.apply(MapPut(MAP, key, b"during", None, 0))

            clusters.line.on_request = write
            job = await clusters.run(SYNC)
            assert job.error == ""
            queue = clusters.source.state.wan.maps[MAP].queues[LONDON]
            lacking = {
                key
                for key, value in clusters.source.values.items()
                if clusters.target.values.get(key) != value
            }
            assert all(queue.has(key) for key in lacking)
            assert not clusters.source.unsynced

    play(scene())


def test_another_target_gets_everything() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            other, count = Cluster(b"o" * 16, publishers=()), 0

            def replace(path: str) -> bool:
                nonlocal count
                count += path == CHANGES_PATH
                if count == 5:
                    clusters.line.receiver = receiver_of(other)
                    return True
                return False

            clusters.line.fails = replace
            job = await clusters.run(SYNC)
            assert job.error == ""
            assert other.values == clusters.source.values

    play(scene())


def test_a_map_that_is_cleared_meanwhile_is_cleared_there() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            count = 0

            def clear(path: str) -> None:
                nonlocal count
                count += path == CHANGES_PATH
                if count == 5:
                    clusters.source.apply(MapClear(MAP))

            clusters.line.on_request = clear
            assert (await clusters.run(SYNC)).error == ""
            clusters.line.on_request = lambda _: None
            clusters.source.apply(WanDropQueue(LONDON, MEMBERS[0]))
            assert (await clusters.run(SYNC)).error == ""
            assert clusters.target.values == {}

    play(scene())


def test_it_gives_up_after_ten_minutes_without_progress_and_leaves_the_gap() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            count = 0

            def gone(path: str) -> bool:
                nonlocal count
                count += path == CHANGES_PATH
                return count > 3

            clusters.line.fails = gone
            began_s = asyncio.get_running_loop().time()
            job = await clusters.run(SYNC)
            took_s = asyncio.get_running_loop().time() - began_s
            assert lane_module.GIVE_UP_S <= took_s < lane_module.GIVE_UP_S + 60
            assert job.error == "no progress for 10 minutes: cut"
            assert 0 < job.progress < 100
            assert clusters.source.unsynced == {MAP}
            clusters.line.fails = lambda _: False
            assert (await clusters.run(SYNC)).error == ""
            assert not clusters.source.unsynced
            assert clusters.target.values == clusters.source.values

    play(scene())


def test_a_target_that_never_answers_is_given_up() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters, 1)
            clusters.line.fails = lambda _: True
            job = await clusters.run(CHECK)
            assert job.error == "no progress for 10 minutes: cut"

    play(scene())


def test_a_target_with_enough_to_do_is_waited_for() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            count = 0

            def overload(path: str) -> None:
                nonlocal count
                count += 1
                clusters.line.receiver.waiting = 9000 if count % 2 else 0

            clusters.line.on_request = overload
            assert (await clusters.run(SYNC)).error == ""
            assert clusters.target.values == clusters.source.values

    play(scene())


def test_changes_that_wait_go_first() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            slept: list[float] = []

            async def sleep(seconds: float) -> None:
                slept.append(seconds)
                await asyncio.sleep(seconds)

            object.__setattr__(clusters.lane, "sleep", sleep)
            await clusters.run(SYNC)
            assert lane_module.YIELD_S not in slept
            clusters.source.apply(MapPut(MAP, "waits", b"", None, 0))
            await clusters.run(SYNC)
            assert lane_module.YIELD_S in slept

    play(scene())


def test_a_map_that_is_replicated_no_more_fails() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)

            def agree(path: str) -> None:
                nobody = agreement((), revision=2, cluster_id=clusters.source.cluster_id)
                clusters.source.apply(WanAgree(nobody._replace(maps=())))

            clusters.note(SYNC)
            clusters.line.on_request = agree
            await clusters.until_ended()
            share = clusters.share()
            assert share is not None
            assert share.ended

    play(scene())


def test_a_share_ends_with_its_job_and_leaves_nothing() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters)
            job, count = clusters.note(SYNC), 0

            def end(path: str) -> None:
                nonlocal count
                count += path == CHANGES_PATH
                if count == 3:
                    ended = ended_job(job, clusters.store.shares(job), "removed", 1)
                    for put in clusters.store.end_puts(ended):
                        put.send(clusters.store.system)

            clusters.line.on_request = end
            running = asyncio.create_task(LaneJobs(clusters.lane, clusters.store).run())
            await asyncio.sleep(60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert [key for key in clusters.kept.items if "share" in key] == []
            assert len(clusters.target.values) < ENTRIES
            assert clusters.source.unsynced == {MAP}

    play(scene())


def test_a_job_that_has_no_shares_yet_has_only_begun() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            job = clusters.note(SYNC)
            assert standing_of(job, {}).stage is OperationStage.STARTED
            await clusters.until_ended()

    play(scene())
