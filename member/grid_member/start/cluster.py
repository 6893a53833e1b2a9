"""The engine of one of several members, from its configuration."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final

from grid_member.cluster.cp.keeper import cp_of_several
from grid_member.cluster.management.departure import MemberDeparture
from grid_member.cluster.membership.broadcast_barrier import BARRIER, SHUTDOWN
from grid_member.cluster.membership.colleagues import ListedColleagues
from grid_member.cluster.membership.configuration_vote import VOTE
from grid_member.cluster.membership.join_list import JOIN_LIST
from grid_member.cluster.membership.locks import LOCK
from grid_member.cluster.membership.member_table import LEASE, LEFT, MEMBER, Description
from grid_member.cluster.membership.membership import Membership
from grid_member.cluster.persistence.backup_keys import REQUEST
from grid_member.cluster.persistence.backups import INTERRUPT
from grid_member.cluster.values.operations import OPERATION
from grid_member.engine.cluster_settings import ClusterSettings, ClusterTls
from grid_member.engine.leasehold import steady_s
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.nats.admin.server_records import LEAVING, REMOVED, SERVER
from grid_member.engine.replicated.consistent_cut import MARKER
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.full_replicas import SEAT_PREFIX
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shards import ReplicatedShards

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.member.member import Member
    from grid_member.config import ClusterConfig, MemberConfig
    from grid_member.engine.api import EngineError, Structures

RECORD_OVERHEAD_BYTES: Final = 1 << 20
"""What a record may hold beside its largest value: names, a key, a content type."""
OF_MEMBERS: Final = (
    *(MEMBER, LEASE, LEFT, LOCK, BARRIER, SHUTDOWN, VOTE, INTERRUPT, REQUEST, OPERATION),
    *(JOIN_LIST, MARKER, SERVER, LEAVING, REMOVED, SEAT_PREFIX, "cp/"),
)
"""Begin the keys of system values that are about members, not about the data that they hold."""


def clustered_engine(
    model: MemberConfig,
    cluster: ClusterConfig,
    name: str,
    structures: Structures,
    on_commit: Callable[[float], None] | None = None,
    on_replacement: Callable[[EngineError], None] | None = None,
) -> ClusterEngine:
    """Return an engine that has not begun to join the others.

    Args:
        model: the configuration of the member.
        cluster: the part of it that is about other members.
        name: the member's.
        structures: finds the settings of maps and queues.
        on_commit: hears how commits go.
        on_replacement: hears why the member has to end, as another process is the same one.
    """
    settings = ClusterSettings(
        cluster_name=model.cluster_name,
        member_name=name,
        port=cluster.port,
        members=cluster.members,
        user=cluster.user,
        password=cluster.password,
        host=cluster.host,
        tls=None
        if cluster.tls is None or cluster.tls.client_ca is None
        else ClusterTls(cluster.tls.certificate, cluster.tls.key, cluster.tls.client_ca),
        lite=cluster.lite,
        backup_count=cluster.backup_count,
        directory=model.data_directory,
        restore_from=model.persistence.restore_from,
        leftovers=OF_MEMBERS,
        validation_timeout_s=model.persistence.validation_timeout_s,
        max_payload_bytes=model.limits.value_bytes + RECORD_OVERHEAD_BYTES,
        report_time=on_commit,
        on_replaced=on_replacement,
    )
    kind = PartEngine if settings.crowded or settings.lite else ClusterEngine
    return kind(structures, ReplicatedShards(settings), wall_clock_ms)


def membership_of(
    engine: ClusterEngine, model: MemberConfig, cluster: ClusterConfig, name: str, version: str
) -> Membership:
    """Return the membership of a member whose engine has not begun to start."""
    membership = Membership(
        engine,
        Description(name, version, cluster.lite, model.cp_member_count),
        server=lambda: engine.server_name or "",
        clock_s=steady_s,
        clock_ms=wall_clock_ms,
        new_id=lambda: uuid.uuid4().hex,
    )
    engine.watch_system(membership.follow)
    engine.set_colleagues(ListedColleagues(membership))
    return membership


def extend_management(member: Member, membership: Membership, engine: ClusterEngine) -> None:
    """Let a member that is not alone leave for good, and have the CP subsystem of several."""
    management, count = member.management, member.config.cp_member_count
    management.departing = MemberDeparture(engine, member, membership)
    if count == 0:
        return
    management.cp, management.cp_keeper = cp_of_several(
        membership,
        engine.groups,
        count,
        new_uuid=lambda: str(uuid.uuid4()),
        clock_s=time.monotonic,
        clock_ms=wall_clock_ms,
    )
