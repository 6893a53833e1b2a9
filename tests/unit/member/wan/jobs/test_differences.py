"""Promise: every kind of difference is found, counted and sent, and nothing else is."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_member.engine.local.wan_jobs import JobShard
from grid_member.engine.local.wan_map import ComparedMap
from grid_member.engine.state.operations import (
    MapClear,
    MapPut,
    MapRemove,
    WanCompare,
    WanDropQueue,
    WanMerge,
    WanPurge,
)
from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Change, ChangeKind
from grid_member.engine.wan.stamps import EPOCH_MS
from grid_member.wan.jobs.records import Counts, JobKind
from grid_member.wan.link import CHANGES_PATH, DIGESTS_PATH, KEYS_PATH
from tests.unit.engine.wan.agreements import LONDON, MAP, MEMBERS
from tests.unit.member.wan.jobs.clusters import (
    BEGIN_MS,
    FAR,
    IN_FLIGHT_MS,
    JOB,
    Cluster,
    Pair,
    pair,
)
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.wan.digests import Held

SYNC, CHECK = JobKind.SYNC, JobKind.CHECK


def put(cluster: Cluster, *keys: str, value: bytes = b"v") -> None:
    for key in keys:
        cluster.apply(MapPut(MAP, key, value, None, 0))


def copy(source: Cluster, target: Cluster, *keys: str) -> None:
    """Bring the target what the source has of keys."""
    for key in keys:
        change = source.jobs().change(MAP, key)
        assert change is not None
        target.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))


def both(pair: Pair, *keys: str) -> None:
    put(pair.source, *keys)
    copy(pair.source, pair.target, *keys)


def merged(cluster: Cluster, key: str, stamp: int, value: bytes = b"w") -> None:
    change = Change(MAP, ChangeKind.PUT, key, stamp, value, None, 0, 0, ())
    cluster.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))


def forget_queue(pair: Pair) -> None:
    """Lose what waits, as when a queue is cleared: only a comparison finds it then."""
    pair.source.apply(WanDropQueue(LONDON, MEMBERS[0]))


def missing(pair: Pair) -> None:
    put(pair.source, "k")


def older(pair: Pair) -> None:
    both(pair, "k")
    put(pair.source, "k", value=b"later")


def of_one_stamp(pair: Pair) -> None:
    merged(pair.source, "k", 77, b"greater")
    merged(pair.target, "k", 77, b"a")


def of_one_stamp_and_greater_there(pair: Pair) -> None:
    merged(pair.source, "k", 77, b"a")
    merged(pair.target, "k", 77, b"greater")


def of_one_stamp_and_ending_there(pair: Pair) -> None:
    merged(pair.source, "k", 77, b"greater")
    change = Change(MAP, ChangeKind.PUT, "k", 77, b"a", None, EPOCH_MS * 2, 0, ())
    pair.target.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))


def newer(pair: Pair) -> None:
    both(pair, "k")
    merged(pair.target, "k", FAR)


def removed_there_later(pair: Pair) -> None:
    both(pair, "k")
    change = Change(MAP, ChangeKind.REMOVAL, "k", FAR, b"", None, 0, 0, ())
    pair.target.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))


def cleared_there_later(pair: Pair) -> None:
    both(pair, "k")
    change = Change(MAP, ChangeKind.CLEAR, "", FAR, b"", None, 0, 0, ())
    pair.target.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))


def removed(pair: Pair) -> None:
    both(pair, "k")
    pair.source.apply(MapRemove(MAP, "k"))


def cleared(pair: Pair) -> None:
    both(pair, "k")
    pair.source.apply(MapClear(MAP))


def removed_before_it_was_put_there(pair: Pair) -> None:
    pair.source.apply(MapRemove(MAP, "k"))
    merged(pair.target, "k", FAR)


def extra(pair: Pair) -> None:
    merged(pair.target, "k", FAR)


def ambiguous(pair: Pair) -> None:
    both(pair, "k")
    pair.source.apply(MapRemove(MAP, "k"))
    forget_queue(pair)
    purge(pair)


def purge(pair: Pair) -> None:
    through = pair.source.state.wan.clock
    pair.source.apply(WanPurge(MAP, through, 0))
    assert not pair.source.state.wan.maps[MAP].tombstones


def put_there_after_the_purge(pair: Pair) -> None:
    ambiguous(pair)
    merged(pair.target, "k", FAR)


CASES: Final[dict[Callable[[Pair], None], tuple[Counts, bytes | None]]] = {
    missing: (Counts(missing=1, sent=1), b"v"),
    older: (Counts(older=1, sent=1), b"later"),
    of_one_stamp: (Counts(older=1, sent=1), b"greater"),
    of_one_stamp_and_greater_there: (Counts(newer=1), b"greater"),
    of_one_stamp_and_ending_there: (Counts(newer=1), b"a"),
    newer: (Counts(newer=1), b"w"),
    removed_there_later: (Counts(newer=1), None),
    cleared_there_later: (Counts(newer=1), None),
    removed: (Counts(removed=1, sent=1), None),
    # A removal of a moment ago is sent in any case: the put before it may be on its way.
    removed_before_it_was_put_there: (Counts(newer=1, sent=1), b"w"),
    extra: (Counts(extra=1), b"w"),
    ambiguous: (Counts(ambiguous=1), b"v"),
    put_there_after_the_purge: (Counts(extra=1), b"w"),
    cleared: (Counts(removed=1, sent=1), None),
}

CLEARING: Final = (cleared, cleared_there_later)


@pytest.mark.parametrize("plant", CASES, ids=lambda plant: plant.__name__)
def test_a_check_counts_and_a_sync_sends(plant: Callable[[Pair], None]) -> None:
    counts, value = CASES[plant]

    async def scene() -> None:
        async with pair() as clusters:
            if plant not in CLEARING:
                both(clusters, *(f"same-{number}" for number in range(100)))
            plant(clusters)
            forget_queue(clusters)
            entries = len(clusters.source.values)
            found = await clusters.counts(CHECK)
            assert found == counts._replace(entries=entries, sent=0)
            assert clusters.target.merged == 0
            found = await clusters.counts(SYNC)
            # What a clear removes there is gone before it is looked for.
            removed = 0 if plant is cleared else counts.removed
            assert found == counts._replace(entries=entries, removed=removed)
            assert clusters.target.merged == counts.sent
            assert clusters.target.values.get("k") == value
            assert not clusters.source.unsynced
            again = await clusters.counts(CHECK)
            left = counts.newer + counts.extra + counts.ambiguous
            assert again.differences == left

    play(scene())


def test_what_waits_in_a_queue_is_no_difference() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, "k")
            assert await clusters.counts(CHECK) == Counts(entries=1)

    play(scene())


def test_a_check_does_not_count_what_arrives_meanwhile() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, *(f"key-{number}" for number in range(50)))
            forget_queue(clusters)
            asked: list[str] = []

            def arrive(path: str) -> None:
                asked.append(path)
                if asked.count(DIGESTS_PATH) == 2 and path == DIGESTS_PATH:
                    copy(clusters.source, clusters.target, *clusters.source.values)

            clusters.line.on_request = arrive
            assert await clusters.counts(CHECK) == Counts(entries=50)
            assert KEYS_PATH not in asked

    play(scene())


def test_a_check_counts_what_stays_while_others_change() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            merged(clusters.target, "extra", FAR)
            number = 0

            def change(path: str) -> None:
                nonlocal number
                number += 1
                merged(clusters.target, "busy", FAR + number)

            clusters.line.on_request = change
            put(clusters.source, "busy")
            assert await clusters.counts(CHECK) == Counts(entries=1, extra=1)

    play(scene())


def test_what_the_target_has_removed_is_newer_and_not_missing() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            removed_there_later(clusters)
            forget_queue(clusters)
            assert await clusters.counts(CHECK) == Counts(entries=1, newer=1)

    play(scene())


def test_a_source_that_has_lost_all_of_a_map_is_told_what_the_target_has() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            merged(clusters.target, "k", FAR)
            assert not clusters.source.state.wan.maps
            job = await clusters.run(CHECK, maps=(MAP,), absent=MAP)
            assert job.error == ""
            assert [each.counts for each in job.results] == [Counts(extra=1)]

    play(scene())


def test_a_full_sync_sends_everything() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, "cleared")
            clusters.source.apply(MapClear(MAP))
            both(clusters, "same", "gone")
            clusters.source.apply(MapRemove(MAP, "gone"))
            forget_queue(clusters)
            assert await clusters.counts(SYNC, full=True) == Counts(entries=1, sent=3)
            assert set(clusters.target.values) == {"same"}
            assert not clusters.line.bytes_to(DIGESTS_PATH, KEYS_PATH)
            assert not clusters.source.unsynced

    play(scene())


def test_a_put_that_arrives_after_the_sync_does_not_undo_the_removal() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, "k", "long-gone")
            flying = clusters.source.jobs().change(MAP, "k")
            assert flying is not None
            clusters.source.apply(MapRemove(MAP, "long-gone"))
            clusters.source.now_ms += 2 * IN_FLIGHT_MS
            clusters.source.apply(MapRemove(MAP, "k"))
            forget_queue(clusters)
            assert await clusters.counts(SYNC) == Counts(sent=1)
            clusters.target.apply(WanMerge(flying, MergePolicy.LATEST_UPDATE, None))
            assert clusters.target.values == {}

    play(scene())


def test_an_empty_target_tells_no_keys() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, *(f"key-{number}" for number in range(5000)))
            counts = await clusters.counts(SYNC)
            assert counts == Counts(entries=5000, missing=5000, sent=5000)
            assert not clusters.line.bytes_to(KEYS_PATH)
            assert clusters.target.values == clusters.source.values

    play(scene())


def test_few_differences_of_many_cost_little() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            chance = random.Random(1)
            for number in range(20_000):
                put(clusters.source, f"key-{number}", value=chance.randbytes(22))
                copy(clusters.source, clusters.target, f"key-{number}")
            put(clusters.source, *(f"key-{number}" for number in range(0, 20_000, 1000)))
            assert (await clusters.counts(SYNC)).sent == 20
            paths = CHANGES_PATH, DIGESTS_PATH, KEYS_PATH
            few = clusters.line.bytes_to(*paths)
            await clusters.counts(SYNC, full=True)
            assert few < (clusters.line.bytes_to(*paths) - few) * 0.1

    play(scene())


class WatchedMap(ComparedMap):
    """A map that tells when its last key was looked at."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.walked = asyncio.Event()

    def held(self, key: str) -> Held | None:
        if key == self.keys()[-1]:
            self.walked.set()
        return super().held(key)


class WatchedShard(JobShard):
    """A shard with one such map."""

    def watch(self) -> WatchedMap:
        self.map = WatchedMap(self._shard, MAP, self._clock)
        return self.map

    def compared(self, name: str) -> ComparedMap:
        return self.map


def test_the_source_looks_at_its_own_entries_before_the_target_has_answered() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, *"abcdefgh")
            shard = WatchedShard(cast("Any", clusters.source), lambda: BEGIN_MS, lambda _: False)
            clusters.lane = replace(clusters.lane, shard=shard)
            watched, digests = shard.watch(), clusters.line.receiver.digests

            async def late(data: bytes) -> bytes:
                await watched.walked.wait()
                return await digests(data)

            with patch.object(clusters.line.receiver, "digests", late):
                assert (await clusters.counts(SYNC)).missing == 8

    play(scene())


def test_a_target_with_many_more_entries_is_asked_in_smaller_buckets() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            for number in range(3000):
                merged(clusters.target, f"key-{number}", FAR)
            both(clusters, "k")
            assert (await clusters.counts(CHECK)).extra == 3000

    play(scene())


def test_keys_that_the_filter_excludes_are_no_difference() -> None:
    async def scene() -> None:
        async with pair(exclude=("tmp-*",)) as clusters:
            put(clusters.source, "tmp-a", "k")
            merged(clusters.target, "tmp-b", FAR)
            forget_queue(clusters)
            assert await clusters.counts(SYNC) == Counts(entries=2, missing=1, sent=1)
            assert set(clusters.target.values) == {"k", "tmp-b"}
            assert (await clusters.counts(CHECK)).differences == 0

    play(scene())


@pytest.mark.parametrize("plant", [extra, ambiguous])
def test_a_mirror_loses_what_only_it_has(plant: Callable[[Pair], None]) -> None:
    async def scene() -> None:
        async with pair(removes_extra=True) as clusters:
            plant(clusters)
            put(clusters.source, "same")
            if plant is extra:
                merged(clusters.source, "later", FAR + 1)
            job = await clusters.run(SYNC)
            assert job.error == ""
            assert "k" not in clusters.target.values
            merged(clusters.target, "newer", FAR + 2)
            await clusters.run(SYNC)
            assert "newer" in clusters.target.values, "it is newer than the begin of the job"

    play(scene())


def test_a_mirror_that_publishes_back_is_refused() -> None:
    async def scene() -> None:
        async with pair(removes_extra=True, published_back=("m*",)) as clusters:
            merged(clusters.target, "k", 77)
            put(clusters.source, "same")
            job = await clusters.run(SYNC)
            assert "extra-entries" in job.error
            assert "k" in clusters.target.values
            assert (await clusters.run(CHECK)).error == ""

    play(scene())


@pytest.mark.parametrize("moment", [DIGESTS_PATH, KEYS_PATH])
def test_a_mirror_that_begins_to_publish_back_is_refused(moment: str) -> None:
    """The connection is older than the publisher that the target has now."""

    async def scene() -> None:
        back: list[str] = []
        async with pair(removes_extra=True, published_back=back) as clusters:
            merged(clusters.target, "gone", 77)
            put(clusters.source, "same")
            assert (await clusters.run(SYNC)).error == ""
            assert "gone" not in clusters.target.values

            def publish(path: str) -> None:
                if path == moment:
                    back[:] = ["m*"]

            merged(clusters.target, "k", 78)
            clusters.line.on_request = publish
            assert "extra-entries" in (await clusters.run(SYNC)).error
            assert "k" in clusters.target.values
            back.clear()
            clusters.line.on_request = lambda _: None
            assert (await clusters.run(SYNC)).error == ""
            assert "k" not in clusters.target.values, "it is a mirror again"

    play(scene())


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        (MergePolicy.LATEST_UPDATE, b"w"),
        (MergePolicy.PASS_THROUGH, b"v"),
        (MergePolicy.PUT_IF_ABSENT, b"w"),
    ],
)
def test_the_policy_says_what_is_sent(policy: MergePolicy, value: bytes) -> None:
    async def scene() -> None:
        async with pair(policy=policy) as clusters:
            put(clusters.target, "k", value=b"w")
            put(clusters.source, "l")
            merged(clusters.source, "k", 77, b"v")
            forget_queue(clusters)
            job = await clusters.run(SYNC)
            assert job.error == ""
            assert clusters.target.values == {"k": value, "l": b"v"}

    play(scene())


def test_a_value_that_is_too_large_fails_the_map_and_keeps_the_gap() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            put(clusters.source, "large", value=b"x" * 1001)
            put(clusters.source, "small")
            forget_queue(clusters)
            job = await clusters.run(SYNC)
            assert "larger than the target takes" in job.error
            assert set(clusters.target.values) == {"small"}
            assert clusters.source.unsynced == {MAP}

    play(scene())


@pytest.mark.parametrize("full", [True, False])
def test_a_proxy_with_a_limit_gets_smaller_requests(full: bool) -> None:
    async def scene() -> None:
        async with pair() as clusters:
            chance = random.Random(7)
            for number in range(200):
                put(clusters.source, f"key-{number}", value=chance.randbytes(900))
            forget_queue(clusters)
            clusters.line.body_limit = 20_000
            job = await clusters.run(SYNC, full=full)
            assert job.error == ""
            assert clusters.target.values == clusters.source.values
            assert clusters.source.unsynced == set()

    play(scene())


def test_an_entry_that_no_request_can_bring_is_left_out_and_told() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            chance = random.Random(7)
            put(clusters.source, "large", value=chance.randbytes(995))
            put(clusters.source, "small")
            forget_queue(clusters)
            clusters.line.body_limit = 900
            job = await clusters.run(SYNC, full=True)
            assert "an entry has 1000 bytes" in job.error
            assert job.error.endswith("left out: 1")
            assert set(clusters.target.values) == {"small"}
            assert clusters.source.unsynced == {MAP}

    play(scene())


operations = st.lists(
    st.tuples(
        st.sampled_from(["source", "target", "copy"]),
        st.sampled_from(["put", "put", "remove", "clear", "purge"]),
        st.sampled_from(["a", "b", "c", "d", "e"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


def apply_planted(clusters: Pair, planted: list[tuple[str, str, str, int]]) -> None:
    for where, what, key, later in planted:
        cluster = clusters.target if where == "target" else clusters.source
        cluster.now_ms += 2 * later
        if where == "copy":
            change = clusters.source.jobs().change(MAP, key)
            if change is not None:
                clusters.target.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))
        elif what == "put":
            put(cluster, key, value=b"%d" % later)
        elif what == "remove":
            cluster.apply(MapRemove(MAP, key))
        elif what == "clear" and later:
            cluster.apply(MapClear(MAP))


@given(operations, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_delta_leaves_what_a_full_sync_leaves(
    planted: list[tuple[str, str, str, int]], waits: bool
) -> None:
    """And after it a check finds only what the target has that is newer, or its own."""

    async def scene(*, full: bool) -> dict[str, object]:
        async with pair() as clusters:
            apply_planted(clusters, planted)
            if not waits:
                forget_queue(clusters)
            job = await clusters.run(SYNC, full=full)
            assert job.error == ""
            check = await clusters.run(CHECK)
            for result in check.results:
                assert (result.counts.missing, result.counts.older, result.counts.removed) == (
                    0,
                    0,
                    0,
                )
            return clusters.target.values

    assert play(scene(full=False)) == play(scene(full=True))


def test_a_compare_names_its_job() -> None:
    async def scene() -> None:
        async with pair(capacity=2) as clusters:
            put(clusters.source, "a", "b", "c")
            assert clusters.source.state.wan.comparing(LONDON) == {MAP}

            def begin_another(path: str) -> None:
                clusters.source.apply(WanCompare(LONDON, MAP, b"another job here", begin=True))

            clusters.line.on_request = begin_another
            await clusters.run(SYNC)
            assert clusters.source.unsynced == {MAP}, "the other job takes care of it"
            clusters.line.on_request = lambda _: None
            assert clusters.source.state.wan.maps[MAP].queues[LONDON].job != JOB

    play(scene())
