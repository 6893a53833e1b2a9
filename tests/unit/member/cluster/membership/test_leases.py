"""What a member's engine hears of the lease under which it takes items."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grid_member.cluster.membership.failure_detector import LEASE_S, RENEW_S
from grid_member.cluster.membership.heartbeat import OWN_LEASE_S
from grid_member.cluster.membership.membership import TICK_S
from grid_member.engine.api import Reason, Refused
from grid_member.engine.replication import Taker

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import Several


async def test_a_lease_lasts_from_the_sign_that_was_taken(several: Several) -> None:
    engine = several.add().engine
    assert engine.leases == [(-math.inf, False)]
    first, _ = await several.started(2)
    engine = first.engine
    await several.time.advance(LEASE_S)
    assert engine.leases == sorted(engine.leases)
    until_s, ended = engine.leases[-1]
    assert 0 <= several.time.now_s + OWN_LEASE_S - until_s <= RENEW_S
    assert not ended
    engine.cut_off()
    told = len(engine.leases)
    await several.time.advance(LEASE_S / 2)
    assert len(engine.leases) == told, "no sign was taken"


async def test_a_member_that_was_taken_off_hears_that_its_lease_has_ended(
    several: Several,
) -> None:
    first, second, _ = await several.started(3)
    first.engine.cut_off()
    await several.time.advance(2 * LEASE_S)
    assert first.uuid not in second.membership.member_table.leases()
    told = len(first.engine.leases)
    first.engine.heal()
    await several.time.advance(2 * RENEW_S)
    endings = [ended for _, ended in first.engine.leases[told:]]
    assert any(endings)
    assert several.time.now_s < first.engine.leases[-1][0] <= several.time.now_s + OWN_LEASE_S
    assert not endings[-1]


async def test_a_gap_in_which_nobody_was_taken_off_ends_no_life(several: Several) -> None:
    """As when the log takes nothing for long: what was handed out is confirmed yet."""
    members = await several.started(3)
    await several.time.advance(LEASE_S)
    told = len(members[0].engine.leases)
    for member in members:
        member.engine.cut_off()
    await several.time.advance(3 * LEASE_S)
    for member in members:
        member.engine.heal()
    await several.time.advance(3 * RENEW_S)
    renewed = members[0].engine.leases[told:]
    assert renewed[-1][0] > several.time.now_s
    assert not any(ended for _, ended in renewed)


async def test_a_lease_that_ended_by_mistake_is_there_again_at_once(several: Several) -> None:
    """A heartbeat and its end may cross: who hears of both goes by the sign."""
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    second.engine.held = {Taker(0, first.uuid, 1)}
    told = len(first.engine.leases)
    for key in (f"lease/{first.uuid}", f"member/{first.uuid}"):
        second.engine.system_put(key, None, lambda _: None)
    await several.time.settle()
    assert first.uuid in second.membership.member_table.leases()
    assert first.engine.leases[-1][0] > several.time.now_s
    await several.time.advance(2 * LEASE_S)
    assert second.gone == []
    assert second.engine.ended == []
    assert not any(ended for _, ended in first.engine.leases[told:])


async def test_a_lease_that_ended_right_behind_a_gap_is_not_held(several: Several) -> None:
    """Who hears of the sign and of its end at once has not heard of the sign, and ends the life."""
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    first.engine.cut_off()
    second.engine.slow = True
    await several.time.advance(LEASE_S + RENEW_S)
    first.engine.heal()
    await several.time.settle()
    assert first.engine.leases[-1][0] > several.time.now_s
    told = len(first.engine.leases)
    for key in (f"lease/{first.uuid}", f"member/{first.uuid}"):
        second.engine.system_put(key, None, lambda _: None)
    await several.time.settle()
    assert first.engine.leases[told] == (-math.inf, True)
    second.engine.heal()
    await several.time.advance(2 * RENEW_S)
    renewed = first.engine.leases[told + 1 :]
    assert renewed[-1][0] > several.time.now_s
    assert not any(ended for _, ended in renewed)


async def test_a_sign_that_was_not_taken_is_given_again_soon(several: Several) -> None:
    first, _ = await several.started(2)
    await several.time.advance(LEASE_S)
    first.engine.refusal = Refused(Reason.UNAVAILABLE, "no quorum")
    await several.time.advance(RENEW_S + TICK_S)
    first.engine.refusal = None
    told = len(first.engine.leases)
    await several.time.advance(TICK_S)
    assert len(first.engine.leases) > told
