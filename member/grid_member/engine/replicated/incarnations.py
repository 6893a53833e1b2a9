"""The lives of members that have items in flight, and how they are ended.

A lane's life of a member is named as it was seen: whatever that member does in a later one is not
touched, however late the end comes.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from grid_member.engine.local.system import ignore
from grid_member.engine.state.operations import MemberGone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.replicated.shard import ClusterLane


class Holder(NamedTuple):
    """A life of a member that has items in flight."""

    lane: int
    """The lane's number: lives of lanes differ."""
    member: str
    """Its UUID."""
    life: int


def holders(lanes: Sequence[ClusterLane]) -> set[Holder]:
    """Return the lives that have items in flight, as far as is applied here."""
    return {
        Holder(lane.shard, str(uuid.UUID(bytes=member)), life)
        for lane in lanes
        for member, life in lane.state.holders().items()
    }


def end_life(lanes: Sequence[ClusterLane], holder: Holder) -> None:
    """Propose to give back what was taken in that life; who looks again sees what came of it."""
    end = MemberGone(uuid.UUID(holder.member).bytes, holder.life)
    for lane in lanes:
        if lane.shard == holder.lane:
            lane.propose(end, ignore, 0, always=True)
