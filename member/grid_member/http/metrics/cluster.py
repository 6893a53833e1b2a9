"""What a member tells of its cluster, and of the certificates that it uses, in metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily

from grid_member.engine.api import ClusterState
from grid_member.engine.io.certificates import end, end_of_authorities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import MemberConfig
    from grid_member.config.model.security import TlsConfig

MEMBERS: Final = "members"
"""The use of the certificate that members know each other by; the others are of listeners."""


def cluster_metrics(member: Member) -> Iterator[Metric]:
    """Yield what the member knows of the cluster."""
    yield GaugeMetricFamily(
        "grid_cluster_safe",
        "1 when no data would be lost if one member were.",
        int(member.safe),
    )
    yield GaugeMetricFamily(
        "grid_cluster_members", "Members that are on the member list.", len(member.members())
    )
    states = GaugeMetricFamily(
        "grid_cluster_state", "1 for the state that the cluster is in.", labels=["state"]
    )
    for state in ClusterState:
        states.add_metric([state.value], int(state is member.cluster_state))
    yield states
    if member.membership is None:
        return
    replication = member.membership.engine.replication()
    yield GaugeMetricFamily(
        "grid_majority",
        "1 while a majority of the members confirms what this one sends.",
        int(replication.in_contact),
    )
    yield GaugeMetricFamily(
        "grid_copies", "Copies of the data that there should be.", replication.replicas
    )
    yield GaugeMetricFamily(
        "grid_copies_not_current",
        "Those of them, and of CP groups, that are missing, behind or out of reach.",
        member.moving_replicas,
    )


def certificate_ends(config: MemberConfig) -> dict[tuple[str, str], float]:
    """Return when what is in the files of TLS ends, by use and kind of file. Blocks.

    Times are seconds since 1970. What cannot be read is left out.
    """
    listeners = [
        one for one in (config.rest, config.management, config.wan_listener) if one is not None
    ]
    used = [(one.kind, one.tls) for one in listeners]
    used.append((MEMBERS, None if config.cluster is None else config.cluster.tls))
    return {
        (use, kind): ends_s
        for use, tls in used
        if tls is not None
        for kind, ends_s in _end_of(tls, of_both=use == MEMBERS)
    }


def certificate_metric(ends: dict[tuple[str, str], float]) -> Metric:
    """Return that as a metric."""
    family = GaugeMetricFamily(
        "grid_certificate_expiry_timestamp_seconds",
        "When the certificate, or one behind it, ends, or the last of the authorities that matter.",
        labels=["use", "file"],
    )
    for labels, ends_s in sorted(ends.items()):
        family.add_metric(labels, ends_s)
    return family


def _end_of(tls: TlsConfig, *, of_both: bool) -> Iterator[tuple[str, float]]:
    """Yield the times of one listener; of members both sides have what one authority issued."""
    if (certificate := end(tls.certificate)) is not None:
        yield "certificate", certificate.timestamp()
    if tls.client_ca is not None:
        ca = end_of_authorities(tls.client_ca, tls.certificate if of_both else None)
        if ca is not None:
            yield "ca", ca.timestamp()
