"""Makes the WAN replication of a member, alone or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.local.engine import LocalEngine
from grid_member.start.wan import MemberWan
from grid_member.wan.agreement.part import WanReplication

if TYPE_CHECKING:
    from grid_member.cluster.member.member import Member


def make_member_wan(member: Member) -> MemberWan | None:
    """Return what a member does for WAN replication; None when its engine is none of ours."""
    engine, agreement = member.engine, member.management.wan
    if not isinstance(engine, LocalEngine) or not isinstance(agreement, WanReplication):
        return None
    if member.membership is None:
        return MemberWan(member, engine)
    # A member that is alone need not load what talks to others.
    from grid_member.engine.replicated.engine import ClusterEngine
    from grid_member.start.wan_several import SeveralWan

    if not isinstance(engine, ClusterEngine):
        return None
    several = SeveralWan(member, engine, member.membership, agreement)
    return MemberWan(member, engine, several)
