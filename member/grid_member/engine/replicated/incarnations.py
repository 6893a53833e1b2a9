"""The lives of members that have items in flight, and how they are ended.

A shard's life of a member is named as it was seen: whatever that member does in a later one is not
touched, however late the end comes.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from grid_member.engine.local.system import ignore
from grid_member.engine.state.operations import MemberGone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.replicated.shard import ReplicatedShard


class Holder(NamedTuple):
    """A life of a member that has items in flight."""

    shard: int
    """The shard's number: lives of shards differ."""
    member: str
    """Its UUID."""
    life: int


def holders(shards: Sequence[ReplicatedShard]) -> set[Holder]:
    """Return the lives that have items in flight, as far as is applied here."""
    return {
        Holder(shard.shard, str(uuid.UUID(bytes=member)), life)
        for shard in shards
        for member, life in shard.state.holders().items()
    }


def end_life(shards: Sequence[ReplicatedShard], holder: Holder) -> None:
    """Propose to give back what was taken in that life; who looks again sees what came of it."""
    end = MemberGone(uuid.UUID(holder.member).bytes, holder.life)
    for shard in shards:
        if shard.shard == holder.shard:
            shard.propose(end, ignore, 0, always=True)
