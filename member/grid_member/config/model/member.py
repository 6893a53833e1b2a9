"""The typed configuration of a member: what every other package of the member is given."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grid_member.config.model.security import SecurityConfig
from grid_member.config.model.wan import WanConfig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from grid_member.config.model.cluster import ClusterConfig
    from grid_member.config.model.security import TlsConfig
    from grid_member.config.model.wan import WanReferenceConfig


class EndpointGroup(enum.Enum):
    """The groups of interface section "Endpoint groups"."""

    CLUSTER_READ = "CLUSTER_READ"
    CLUSTER_WRITE = "CLUSTER_WRITE"
    HEALTH_CHECK = "HEALTH_CHECK"
    PERSISTENCE = "PERSISTENCE"
    WAN = "WAN"
    DATA = "DATA"
    CP = "CP"


FORMER_GROUPS = {"HOT_RESTART": EndpointGroup.PERSISTENCE}
"""Names that groups have, or had, elsewhere."""
DEFAULT_GROUPS = frozenset({EndpointGroup.CLUSTER_READ, EndpointGroup.HEALTH_CHECK})
ALL_GROUPS = frozenset(EndpointGroup)


@dataclass(frozen=True, slots=True)
class User:
    """One name and password of a realm; the password is never shown."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listening port: `port` to `port + port_count - 1` are tried with auto-increment."""

    port: int
    auto_increment: bool = False
    port_count: int = 1
    groups: frozenset[EndpointGroup] = DEFAULT_GROUPS
    setting: str = "network.rest-api"
    """The element that the groups were configured under; log lines name it."""
    users: tuple[User, ...] | None = None
    """Who may call at all, by HTTP Basic authentication; None asks nobody."""
    realm: str = ""
    interfaces: tuple[str, ...] = ("*",)
    """IP addresses to listen on; `*` is every one."""
    port_setting: str = "network.port"
    """The element that holds the port; an error about a taken port names it."""
    tls: TlsConfig | None = None
    """None speaks plain HTTP."""
    metrics: bool = False
    """It answers `GET /metrics` and nothing else."""
    wan: bool = False
    """It takes the changes of other clusters and nothing else."""

    @property
    def kind(self) -> str:
        """How log lines and metrics name the listener."""
        if self.metrics or self.wan:
            return "metrics" if self.metrics else "wan"
        return "rest" if self.users is None else "management"


@dataclass(frozen=True, slots=True)
class StructureConfig:
    """What maps and queues have in common."""

    persistent: bool
    fsync: bool


@dataclass(frozen=True, slots=True)
class EvictionConfig:
    """What a map gives up when it holds too much; a limit of 0 is none."""

    policy: str
    """LRU, LFU or RANDOM."""
    max_entries: int = 0
    max_bytes: int = 0
    """Of keys and values, without what the member itself needs to keep them."""


@dataclass(frozen=True, slots=True)
class MapConfig(StructureConfig):
    """Configuration of the maps that a name or wildcard stands for; 0 seconds are never."""

    time_to_live_s: int = 0
    max_idle_s: int = 0
    eviction: EvictionConfig | None = None
    wan: WanReferenceConfig | None = None
    """None: the maps are not replicated."""


@dataclass(frozen=True, slots=True)
class QueueConfig(StructureConfig):
    """Configuration of the queues that a name or wildcard stands for."""

    max_size_items: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may carry; beyond it 413, 414 or 431."""

    name_bytes: int = 255
    key_bytes: int = 8 << 10
    value_bytes: int = 8 << 20
    header_bytes: int = 64 << 10


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How the listeners deal with connections."""

    fast_path: bool = True
    """Plain data requests are answered without aiohttp."""
    event_loop: str = "auto"
    """Of the process: `asyncio`, `uvloop`, or `auto`, which is uvloop where it is installed."""
    max_connections: int = 10_000
    """Of one listener."""
    idle_timeout_s: float = 3600
    head_timeout_s: float = 30
    body_timeout_s: float = 60
    """How long a body may stand still."""
    write_timeout_s: float = 60
    """How long an answer may stand still because its client does not read."""


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """How and from which level on the log is written."""

    format: str = "text"
    level: str = "info"


@dataclass(frozen=True, slots=True)
class PersistenceConfig:
    """What is done with the stored data beside storing it."""

    backup_directory: Path | None = None
    restore_from: Path | None = None
    recovery_policy: str = "FULL_RECOVERY_ONLY"
    validation_timeout_s: int = 120


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """Everything a member is told."""

    cluster_name: str = "dev"
    instance_name: str | None = None
    public_address: str | None = None
    rest: ListenerConfig | None = None
    management: ListenerConfig | None = None
    metrics: ListenerConfig | None = None
    wan_listener: ListenerConfig | None = None
    """Where other clusters send their changes; without `users` they show client certificates."""
    security: SecurityConfig = field(default_factory=SecurityConfig)
    maps: Mapping[str, MapConfig] = field(default_factory=dict)
    queues: Mapping[str, QueueConfig] = field(default_factory=dict)
    data_directory: Path | None = None
    persistence: PersistenceConfig = field(default_factory=PersistenceConfig)
    join_members: tuple[str, ...] | None = None
    """The members of the TCP/IP join; None when that is off."""
    cluster: ClusterConfig | None = None
    """None: this member is alone."""
    cp_member_count: int = 0
    """0: there is no CP subsystem."""
    limits: Limits = field(default_factory=Limits)
    http: HttpConfig = field(default_factory=HttpConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    parked_file: Path | None = None
    """What parks the member when it is there at the start; None: nothing does."""
    wan: WanConfig = field(default_factory=WanConfig)
    drain_s: int = 0
    """How long a member that is told to stop still answers what load balancers send it."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What the log says at the start: variables that have former names or are no setting, and
    settings that work and may not do what was meant."""
