"""A map of which WAN replication has nothing left to remember is forgotten."""

from __future__ import annotations

from grid_member.engine.state.operations import (
    MapClear,
    MapRemove,
    WanMemberState,
    WanPurge,
)
from grid_member.engine.wan.agreement import (
    MergePolicy,
    PublisherState,
)
from grid_member.engine.wan.changes import MergeResult
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.wan.agreements import LONDON, agreement
from tests.unit.engine.wan.single import AHEAD, A, Single, change

PUT_IF_ABSENT = MergePolicy.PUT_IF_ABSENT
RETENTION_MS = agreement().tombstone_retention_ms + 60_000
"""And as far as a test's stamps are ahead."""


def due(single: Single, now_ms: int) -> list[WanPurge]:
    wan = single.state.wan
    found = (wan.purge_due(name, now_ms, 100) for name in wan.maps)
    return [purge for purge in found if purge is not None]


def test_a_map_that_holds_nothing_any_more_is_forgotten() -> None:
    """Clients choose the names of maps: each name would stay in memory for ever."""
    single = Single(agreement(maps=("*",)))
    wan, before = single.state.wan, single.state.live_bytes
    single.apply(MapRemove("removed", "k"))
    single.apply(MapClear("cleared"))
    single.put("k")
    later_ms = single.now_ms + 600_000
    assert due(single, later_ms) == [], "both wait in the queue"
    single.acknowledge_all("removed", "cleared")
    assert due(single, single.now_ms) == [], "an older put may come"
    assert [purge.name for purge in due(single, later_ms)] == ["removed", "cleared"]
    single.now_ms = later_ms
    for purge in due(single, later_ms):
        single.apply(purge)
    assert set(wan.maps) == {"m"}
    single.apply(MapRemove("m", "k"))
    single.acknowledge_all()
    single.now_ms += RETENTION_MS
    for purge in due(single, single.now_ms):
        single.apply(purge)
    assert (wan.maps, single.state.live_bytes) == ({}, before)
    assert due(single, single.now_ms) == []


def test_an_older_put_of_a_map_that_was_forgotten_is_ambiguous() -> None:
    for remove in (MapRemove("m", "k"), MapClear("m")):
        single = Single(agreement())
        single.apply(remove)
        single.acknowledge_all()
        single.now_ms += RETENTION_MS
        single.apply(WanPurge("m", AHEAD, 0))
        assert single.state.wan.maps == {}
        single.state = through_a_snapshot(single.state)
        assert single.merge(change("k", 5)) is MergeResult.AMBIGUOUS
        assert single.merge(change("l", AHEAD)) is MergeResult.TAKEN


def test_a_map_whose_tombstones_were_purged_a_moment_ago_is_not_forgotten() -> None:
    """Else the mark of all forgotten maps would make changes of others ambiguous."""
    single = Single(agreement(maps=("*",)))
    single.apply(MapRemove("m", "k"))
    single.acknowledge_all()
    single.apply(WanPurge("m", single.state.wan.clock, 0))
    assert single.state.wan.maps["m"].tombstones == {}
    fresh = change("k", single.state.wan.clock - 1)._replace(name="new")
    assert single.merge(fresh) is MergeResult.TAKEN
    assert single.merge(change("k", 5)) is MergeResult.AMBIGUOUS


def test_a_map_with_a_gap_is_not_forgotten() -> None:
    single = Single(agreement())
    single.apply(WanMemberState(LONDON, A, PublisherState.STOPPED))
    single.apply(MapRemove("m", "k"))
    single.apply(WanPurge("m", AHEAD, 0))
    assert single.state.wan.unsynced(LONDON) == {"m"}
