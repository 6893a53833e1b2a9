"""What is stored about members that left for good goes, and their queues are sent."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.values.system_store import Put, carry_out
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.wan.agreement import keeper as keepers
from grid_member.wan.agreement.departed import DepartedMembers
from grid_member.wan.agreement.store import MEMBER, paused_put, state_put
from tests.unit.member.wan.agreement.test_live import agreed, text
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import RunningMember

LONDON = PublisherName("r", "london")
GONE = str(uuid.uuid4())
LOOKS = 3


def test_a_member_has_left_for_good_after_so_many_looks_in_a_row() -> None:
    departed = DepartedMembers()
    assert departed.look("ab", "a", 2) == []
    assert departed.look("ab", "ab", 2) == [], "it came back"
    assert departed.look("ab", "a", 2) == []
    assert departed.look("ab", "a", 2) == ["b"]
    assert departed.look("a", "a", 2) == []


@pytest.mark.parametrize("restored", [False, True])
async def test_states_of_members_that_left_for_good_are_forgotten(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch, restored: bool
) -> None:
    monkeypatch.setattr(keepers, "LOOKS_IN_MEMORY", LOOKS)
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    part: Any = member.member.management.wan
    keeper, store = part.calls.keeper, member.member.management.store
    own = state_put(LONDON, keeper.own_uuid, PublisherState.PAUSED)
    puts = [own, state_put(LONDON, GONE, PublisherState.PAUSED), Put(MEMBER + GONE, b"digest")]
    if restored:
        puts.append(paused_put(LONDON))
    assert not any(await carry_out(*(put.begin(store) for put in puts)))

    def state(of: str) -> PublisherState:
        (shard,) = keeper.shards.with_data()
        found: PublisherState = shard.state.wan.member_state(LONDON, uuid.UUID(of).bytes)
        return found

    await keeper.look()
    await until(lambda: state(GONE) is PublisherState.PAUSED)
    for _ in range(LOOKS):
        await keeper.look()
    assert keeper.stored.states() == {(LONDON, keeper.own_uuid): PublisherState.PAUSED}
    assert keeper.stored.members() == {keeper.own_uuid}
    assert state(keeper.own_uuid) is PublisherState.PAUSED
    wanted = PublisherState.PAUSED if restored else PublisherState.REPLICATING
    await until(lambda: state(GONE) is wanted)
