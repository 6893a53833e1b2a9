"""What a member's engine hears of the lease under which it takes items."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grid_member.cluster.membership import TICK_S
from grid_member.cluster.pulse import LEASE_S, RENEW_S
from grid_member.cluster.signs import SURE_S
from grid_member.engine.api import Reason, Refused

if TYPE_CHECKING:
    from tests.unit.member.membership.several import Several


async def test_a_lease_lasts_from_the_sign_that_was_taken(several: Several) -> None:
    first, _ = await several.started(2)
    engine = first.engine
    assert engine.leases[0] == -math.inf
    assert -math.inf not in engine.leases[1:]
    await several.time.advance(LEASE_S)
    assert engine.leases == sorted(engine.leases)
    assert 0 <= several.time.now_s + SURE_S - engine.leases[-1] <= RENEW_S
    engine.cut_off()
    told = len(engine.leases)
    await several.time.advance(LEASE_S / 2)
    assert len(engine.leases) == told, "no sign was taken"


async def test_a_member_that_was_taken_off_hears_so_before_it_has_a_lease_again(
    several: Several,
) -> None:
    first, second, _ = await several.started(3)
    first.engine.cut_off()
    await several.time.advance(2 * LEASE_S)
    assert first.uuid not in second.membership.roll.leases()
    told, healed_s = len(first.engine.leases), several.time.now_s
    first.engine.heal()
    await several.time.advance(2 * RENEW_S)
    ended, again, *_ = first.engine.leases[told:]
    assert ended <= healed_s  # that of a sign that was on its way, or of none
    assert several.time.now_s < again < several.time.now_s + SURE_S


async def test_a_lease_that_ended_by_mistake_is_there_again_at_once(several: Several) -> None:
    """A sign of life and its end may cross."""
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    told = len(first.engine.leases)
    second.engine.system_put(f"lease/{first.uuid}", None, lambda _: None)
    await several.time.settle()
    assert first.engine.leases[told] == -math.inf
    assert first.engine.leases[-1] > several.time.now_s
    assert second.gone == []
    assert first.uuid in second.membership.roll.leases()


async def test_a_sign_that_was_not_taken_is_given_again_soon(several: Several) -> None:
    first, _ = await several.started(2)
    await several.time.advance(LEASE_S)
    first.engine.refusal = Refused(Reason.UNAVAILABLE, "no quorum")
    await several.time.advance(RENEW_S + TICK_S)
    first.engine.refusal = None
    told = len(first.engine.leases)
    await several.time.advance(TICK_S)
    assert len(first.engine.leases) > told
