"""The typed configuration of WAN replication: publishers, references of maps, the listener."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from grid_member.config.model.member import User

WAN_PORT = 5705


@dataclass(frozen=True, slots=True)
class WanTargetTlsConfig:
    """The files that a publisher speaks TLS with."""

    setting: str
    """The `ssl` element; errors name it."""
    ca: Path
    """PEM: the authorities that the target's certificate is from."""
    certificate: Path | None = None
    """PEM: the certificate that the member shows, then the intermediate ones; None shows none."""
    key: Path | None = None
    """There whenever there is a certificate."""
    key_password: str | None = field(default=None, repr=False)
    minimum_version: str = "TLSv1.2"


@dataclass(frozen=True, slots=True)
class WanPublisherConfig:
    """One `batch-publisher`: a cluster that changes go to, and how."""

    publisher_id: str
    cluster_name: str
    """Of the target, which refuses another name."""
    target_endpoints: tuple[tuple[str, int], ...]
    """Host (IPv6 without brackets) and port."""
    realm: str | None = None
    identity: User | None = None
    """What the member shows to the target; None: only a client certificate."""
    tls: WanTargetTlsConfig | None = None
    """None speaks plain HTTP."""
    batch_size: int = 500
    batch_max_delay_ms: int = 1000
    response_timeout_ms: int = 60_000
    queue_capacity: int = 100_000
    queue_full_behavior: str = "DISCARD_AFTER_MUTATION"
    max_concurrent_invocations: int = -1
    discovery_period_s: int = 10
    max_target_endpoints: int = 2**31 - 1
    initial_publisher_state: str = "REPLICATING"
    consistency_check_strategy: str = "MERKLE_TREES"
    extra_entries: str = "KEEP"
    compression: str = "AUTO"


@dataclass(frozen=True, slots=True)
class WanReplicationConfig:
    """One `wan-replication`; without publishers it is declared for `addWanConfig` to fill."""

    name: str
    publishers: Mapping[str, WanPublisherConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WanReferenceConfig:
    """The `wan-replication-ref` of a map configuration."""

    replication: str
    merge_policy: str = "LatestUpdateMergePolicy"
    republishing: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WanConfig:
    """All of WAN replication but the listener."""

    replications: Mapping[str, WanReplicationConfig] = field(default_factory=dict)
    accepted_clusters: tuple[str, ...] | None = None
    """Names of clusters whose changes are taken; None: of any that authenticates."""
    tombstone_retention_s: int = 604_800
    max_tombstones: int = 1_000_000
    max_clock_ahead_s: int = 60
    identities: Mapping[str, User] = field(default_factory=dict)
    """What publishers that are added at run time may show, by the name of the realm."""
    tls: WanTargetTlsConfig | None = None
    """What publishers that are added at run time speak TLS with; None: they speak plain HTTP."""
    tls_problem: str = ""
    """Why no publisher can be added, empty when it can."""
