"""Promise: many tombstones beside few entries cost little, and no long turn of the event loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast
from unittest.mock import patch

import pytest

from grid_member.engine.local.wan_jobs import JobShard
from grid_member.engine.local.wan_map import ComparedMap
from grid_member.engine.state.operations import (
    MapPut,
    MapRemove,
    WanAgree,
    WanDropQueue,
    WanMerge,
)
from grid_member.engine.wan import digests
from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Change, ChangeKind
from grid_member.wan.jobs.records import Counts, JobKind
from grid_member.wan.link import KEYS_PATH
from grid_member.wan.pacing import SLICE, Pacer
from tests.unit.engine.wan.agreements import LONDON, MEMBERS
from tests.unit.member.wan.jobs.clusters import BEGIN_MS, FAR, MAP, Cluster, pair
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    from grid_member.engine.wan.digests import Held

TOMBSTONES: Final = 4000
FEW_BYTES: Final = 5000
"""Of questions and answers: less than the rows of a twentieth of the tombstones take."""


def fill(cluster: Cluster, *, with_tombstones: bool) -> None:
    more = cluster.agreement._replace(revision=2, max_tombstones=2 * TOMBSTONES)
    cluster.apply(WanAgree(more))
    for number in range(10):
        change = Change(MAP, ChangeKind.PUT, f"e-{number}", FAR, b"v", None, 0, 0, ())
        cluster.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))
    for number in range(TOMBSTONES if with_tombstones else 0):
        cluster.apply(MapRemove(MAP, f"removed-{number}"))
    if with_tombstones:
        assert len(cluster.state.wan.maps[MAP].tombstones) == TOMBSTONES


@pytest.mark.parametrize("kind", JobKind)
@pytest.mark.parametrize(("here", "there"), [(True, True), (True, False), (False, True)])
def test_one_difference_lists_few_tombstones(kind: JobKind, here: bool, there: bool) -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters.source, with_tombstones=here)
            fill(clusters.target, with_tombstones=there)
            change = Change(MAP, ChangeKind.PUT, "extra", FAR, b"v", None, 0, 0, ())
            clusters.target.apply(WanMerge(change, MergePolicy.LATEST_UPDATE, None))
            counts = await clusters.counts(kind)
            assert counts.extra == 1
            assert 0 < clusters.line.bytes_to(KEYS_PATH) < FEW_BYTES

    play(scene())


class CountedMap(ComparedMap):
    """A map that counts how many keys are looked at between two turns of the loop."""

    looked_at = most = 0

    def held(self, key: str) -> Held | None:
        self.looked_at += 1
        return super().held(key)

    async def turn(self, seconds: float) -> None:
        self.most, self.looked_at = max(self.most, self.looked_at), 0
        await asyncio.sleep(seconds)


class CountedShard(JobShard):
    """A shard with one such map."""

    def count(self) -> CountedMap:
        self.map = CountedMap(self._shard, MAP, self._clock)
        return self.map

    def compared(self, name: str) -> ComparedMap:
        return self.map


def test_the_source_compares_a_full_bucket_in_slices() -> None:
    async def scene() -> None:
        async with pair() as clusters:
            fill(clusters.source, with_tombstones=True)
            clusters.source.apply(MapPut(MAP, "missing", b"v", None, 0))
            clusters.source.apply(WanDropQueue(LONDON, MEMBERS[0]))
            fill(clusters.target, with_tombstones=True)
            shard = CountedShard(cast("Any", clusters.source), lambda: BEGIN_MS, lambda _: False)
            counted = shard.count()
            pacer = Pacer(clusters.lane.clock, counted.turn)
            clusters.lane = replace(clusters.lane, shard=shard, pacer=pacer)
            with patch.object(digests, "MAX_BITS", 0):
                counts = await clusters.counts(JobKind.CHECK)
            assert counts == Counts(entries=11, missing=1)
            assert 0 < counted.most <= 2 * SLICE

    play(scene())
