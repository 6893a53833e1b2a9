"""The incarnations of members that have items in flight, and how they are ended.

A shard's incarnation of a member is named as it was seen: whatever that member does in a later one
is not touched, however late the end comes.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from grid_member.engine.local.system import ignore
from grid_member.engine.state.operations import MemberGone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.replicated.replicated_shard import ReplicatedShard


class Taker(NamedTuple):
    """An incarnation of a member that has items in flight."""

    shard: int
    """The shard's number: incarnations of shards differ."""
    member: str
    """Its UUID."""
    incarnation: int


def takers(shards: Sequence[ReplicatedShard]) -> set[Taker]:
    """Return the incarnations that have items in flight, as far as is applied here."""
    return {
        Taker(shard.shard, str(uuid.UUID(bytes=member)), incarnation)
        for shard in shards
        for member, incarnation in shard.state.takers().items()
    }


def end_incarnation(shards: Sequence[ReplicatedShard], taker: Taker) -> None:
    """Propose to give back what was taken in that incarnation; another look shows the outcome."""
    end = MemberGone(uuid.UUID(taker.member).bytes, taker.incarnation)
    for shard in shards:
        if shard.shard == taker.shard:
            shard.propose(end, ignore, 0, always=True)
