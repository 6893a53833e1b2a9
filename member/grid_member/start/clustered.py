"""The engine of one of several members, from its configuration."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership import Membership
from grid_member.engine.cluster_engine import open_cluster_engine
from grid_member.engine.cluster_settings import ClusterSettings, ClusterTls
from grid_member.engine.log import wall_clock_ms

if TYPE_CHECKING:
    from grid_member.config import ClusterConfig, MemberConfig
    from grid_member.engine.api import Structures
    from grid_member.engine.cluster_engine import ClusterEngine

RECORD_OVERHEAD_BYTES: Final = 1 << 20
"""What a record may hold beside its largest value: names, a key, a content type."""


def clustered_engine(
    model: MemberConfig, cluster: ClusterConfig, name: str, structures: Structures
) -> ClusterEngine:
    """Return an engine that has not begun to join the others."""
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
        max_payload_bytes=model.limits.value_bytes + RECORD_OVERHEAD_BYTES,
    )
    return open_cluster_engine(structures, settings, clock=wall_clock_ms)


def membership_of(
    engine: ClusterEngine, cluster: ClusterConfig, name: str, version: str
) -> Membership:
    """Return the membership of a member whose engine has not begun to start."""
    membership = Membership(
        engine,
        name,
        version,
        lite=cluster.lite,
        server=lambda: engine.server_name or "",
        clock_s=time.monotonic,
        clock_ms=wall_clock_ms,
        new_id=lambda: uuid.uuid4().hex,
    )
    membership.on_gone.append(lambda gone: engine.member_gone(uuid.UUID(gone)))
    engine.watch_system(membership.applied)
    return membership
