"""A change of the state that some of the log did not take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grid_member.engine.api import ClusterState, Reason, Refused

if TYPE_CHECKING:
    from grid_member.http.wire.answers import Answer
    from tests.unit.member.cluster.several import OneOfSeveral, Several

GIVEN_UP = Refused(Reason.UNAVAILABLE, "no quorum")


async def change(several: Several, member: OneOfSeveral, state: str, key: str) -> Answer:
    answer: Answer = await several.run(member.call("change_state", state, key=key))
    return answer


async def test_a_change_that_a_shard_did_not_take_is_neither_shown_nor_remembered(
    several: Several,
) -> None:
    first, second = await several.started(2)
    first.engine.unprepared = GIVEN_UP
    assert (await change(several, first, "passive", "k")).status == 503
    assert first.state() is second.state() is ClusterState.ACTIVE
    first.engine.unprepared = None
    again = await change(several, first, "passive", "k")
    assert again.status == 200
    assert not again.repeated
    assert json.loads(again.body)["status"] == "success"
    assert first.state() is second.state() is ClusterState.PASSIVE
    assert (await change(several, second, "passive", "k")).repeated


async def test_a_state_that_some_shards_are_not_in_is_told_to_all(several: Several) -> None:
    first, _ = await several.started(2)
    assert json.loads((await change(several, first, "active", "k")).body)["status"] == "fail"
    assert first.engine.prepared == []
    first.engine.agreed = False
    assert json.loads((await change(several, first, "active", "l")).body)["status"] == "success"
    assert first.engine.prepared == [ClusterState.ACTIVE]
