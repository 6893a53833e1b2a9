"""Items of members that are gone, and shards that missed a change of the state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.cluster.membership.failure_detector import LEASE_S, RENEW_S
from grid_member.cluster.membership.upkeep import LOOK_S, Upkeep
from grid_member.engine.api import ClusterState
from grid_member.engine.replication import Taker

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import Several

SOON_GONE_S = LEASE_S + 2 * RENEW_S
NOBODY = "00000000-0000-4000-8000-00000000dead"


async def test_what_a_member_held_returns_as_soon_as_its_lease_has_ended(several: Several) -> None:
    first, second, third = await several.started(3)
    life = Taker(2, third.uuid, 5)
    for member in (first, second):
        member.engine.held = {life}
    await several.time.advance(3 * LOOK_S)
    assert first.engine.ended == []
    await third.end()
    while third.uuid in first.listed:
        await several.time.advance(0.5)
    await several.time.advance(0.5)
    assert first.engine.ended == second.engine.ended == [life]


async def test_what_nobody_saw_end_is_ended(several: Several) -> None:
    """All who saw the lease were started anew since, or a record came late."""
    first, *_ = await several.started(3)
    life = Taker(1, NOBODY, 7)
    first.engine.held = {life}
    await several.time.advance(LOOK_S)
    await several.time.advance(LOOK_S)
    assert first.engine.ended[0] == life


async def test_who_has_a_lease_again_keeps_what_it_holds(several: Several) -> None:
    first, _, third = await several.started(3)
    upkeep = Upkeep(first.membership)
    first.engine.held = {Taker(0, third.uuid, 8)}
    upkeep.note_gone(third.uuid)
    await several.run(upkeep.look())
    await several.run(upkeep.look())
    assert first.engine.ended == []


async def test_a_lease_that_is_not_known_yet_counts(several: Several) -> None:
    """A shard may be ahead of the one that has the leases."""
    first, _ = await several.started(2)
    first.engine.slow = True
    late = several.add()
    starting = asyncio.ensure_future(late.start())
    await several.time.settle()
    upkeep = Upkeep(first.membership)
    first.engine.held = {Taker(0, late.uuid, 1)}
    upkeep.note_gone(late.uuid)
    looking = asyncio.ensure_future(upkeep.look())
    await several.time.settle()
    assert not looking.done()
    first.engine.heal()
    await several.run(starting)
    await looking
    assert first.engine.ended == []


async def test_without_a_majority_nobody_is_ended(several: Several) -> None:
    first, *_ = await several.started(3)
    first.engine.held = {Taker(1, NOBODY, 7)}
    first.engine.cut_off()
    await several.time.advance(4 * LOOK_S)
    assert first.engine.ended == []
    first.engine.heal()
    await several.time.advance(3 * LOOK_S)
    assert first.engine.ended


async def test_shards_that_differ_are_told_the_state_again(several: Several) -> None:
    first, second = await several.started(2)
    told = []
    change = first.engine.change_cluster_state

    def tell(state: ClusterState, done: object, *, transient: bool = False) -> None:
        told.append((state, transient))
        first.engine.agreed = True
        change(state, done, transient=transient)  # type: ignore[arg-type]

    first.engine.change_cluster_state = tell  # type: ignore[method-assign]
    first.engine.agreed = False
    first.engine.figures = first.engine.figures._replace(in_contact=False)
    await several.time.advance(3 * LOOK_S)
    assert told == []  # that cannot be done now, and takes a lock
    first.engine.figures = first.engine.figures._replace(in_contact=True)
    await several.time.advance(3 * LOOK_S)
    assert told == [(ClusterState.ACTIVE, False)]
    assert not second.membership.changing
