"""The table of settings: every element a configuration may hold, and those refused by name.

In a path, `*` stands for any name and `[]` for the items of a list. The same table validates,
gives the defaults and is what docs/member.md is checked against.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | str

MAX_COUNT: Final = 2**31 - 1
MAX_PORT: Final = 65535
MAX_BACKUPS_MEMBERS: Final = 6


class Kind(enum.Enum):
    """What a setting's text is turned into."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Setting:
    """One supported leaf. `choices` are compared without case and given back as listed."""

    path: str
    kind: Kind
    default: Value | None
    low: int = 0
    high: int = MAX_COUNT
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """An element that exists elsewhere and that this version does not have."""

    path: str
    why: str = "is not supported yet"


def _flag(path: str, default: bool | None) -> Setting:
    return Setting(path, Kind.BOOLEAN, default)


def _number(path: str, default: int, low: int = 0, high: int = MAX_COUNT) -> Setting:
    return Setting(path, Kind.INTEGER, default, low, high)


def _text(path: str, default: str | None, *choices: str) -> Setting:
    return Setting(path, Kind.STRING, default, choices=choices)


LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")

SETTINGS: Final[tuple[Setting, ...]] = (
    _text("cluster-name", "dev"),
    _text("instance-name", None),
    _number("network.port.port", 5701, 0, MAX_PORT),
    _flag("network.port.auto-increment", True),
    _number("network.port.port-count", 100, 1, MAX_PORT),
    _text("network.public-address", None),
    _flag("network.interfaces.enabled", False),
    _text("network.interfaces.interfaces.[]", None),
    _flag("network.rest-api.enabled", False),
    _flag("network.rest-api.endpoint-groups.*.enabled", None),
    _flag("network.management.enabled", False),
    _number("network.management.port.port", 5702, 0, MAX_PORT),
    _flag("network.management.port.auto-increment", False),
    _number("network.management.port.port-count", 100, 1, MAX_PORT),
    _flag("network.management.endpoint-groups.*.enabled", True),
    _text("network.management.realm", None),
    _flag("security.enabled", False),
    _text("security.realms.[].name", None),
    _text("security.realms.[].authentication.simple.users.[].username", None),
    _text("security.realms.[].authentication.simple.users.[].password", None),
    _number("map.*.time-to-live-seconds", 0),
    _number("map.*.backup-count", 1, 0, MAX_BACKUPS_MEMBERS),
    _number("map.*.async-backup-count", 0, 0, MAX_BACKUPS_MEMBERS),
    _flag("map.*.data-persistence.enabled", None),
    _flag("map.*.data-persistence.fsync", None),
    _number("queue.*.max-size", 0),
    _number("queue.*.backup-count", 1, 0, MAX_BACKUPS_MEMBERS),
    _number("queue.*.async-backup-count", 0, 0, MAX_BACKUPS_MEMBERS),
    _flag("queue.*.data-persistence.enabled", None),
    _flag("queue.*.data-persistence.fsync", None),
    _flag("persistence.enabled", False),
    _text("persistence.base-dir", "persistence"),
    _number("limits.name-bytes", 255, 1, 4096),
    _number("limits.key-bytes", 8 << 10, 1, 64 << 10),
    _number("limits.value-bytes", 8 << 20, 1, 1 << 30),
    _number("limits.header-bytes", 64 << 10, 1 << 10, 1 << 20),
    _text("logging.format", "text", *LOG_FORMATS),
    _text("logging.level", "info", *LOG_LEVELS),
)


def _refused(prefix: str, *names: str) -> tuple[RefusedSetting, ...]:
    return tuple(RefusedSetting(f"{prefix}{name}") for name in names)


REFUSED: Final[tuple[RefusedSetting, ...]] = (
    *_refused(
        "",
        *("advanced-network", "cp-subsystem", "wan-replication", "partition-group"),
        *("split-brain-protection", "hot-restart-persistence", "properties", "import"),
        *("config-replacers", "multimap", "list", "set", "topic", "reliable-topic", "cache"),
        *("ringbuffer", "executor-service", "durable-executor-service"),
        *("scheduled-executor-service", "cardinality-estimator", "flake-id-generator"),
        *("pn-counter", "replicatedmap", "listeners", "serialization", "native-memory"),
        *("member-attributes", "management-center", "metrics", "instance-tracking"),
        *("user-code-deployment", "auditlog", "jet", "sql", "device", "local-device"),
        *("license-key", "lite-member", "dynamic-configuration", "integrity-checker"),
        *("tpc", "user-code-namespaces", "crdt-replication", "memcache-protocol"),
        *("diagnostics", "vector-collection", "data-connection", "rest"),
    ),
    *_refused(
        "network.",
        *("join", "ssl", "reuse-address", "outbound-ports", "socket-interceptor"),
        *("symmetric-encryption", "member-address-provider", "failure-detector"),
        *("memcache-protocol", "tpc-socket", "management.ssl", "management.port.outbound-ports"),
    ),
    *_refused(
        "security.",
        *("member-authentication", "client-authentication", "client-permissions", "rest"),
        *(
            "client-block-unmapped-actions",
            "client-permission-policy",
            "member-credentials-factory",
        ),
        *("security-interceptors", "realms.[].identity", "realms.[].access-control-service"),
        *("realms.[].authentication.jaas", "realms.[].authentication.tls"),
        *("realms.[].authentication.ldap", "realms.[].authentication.kerberos"),
        *("realms.[].authentication.simple.role-separator",),
        *("realms.[].authentication.simple.users.[].roles",),
    ),
    *_refused(
        "map.*.",
        *("max-idle-seconds", "eviction", "in-memory-format", "statistics-enabled"),
        *("per-entry-stats-enabled", "read-backup-data", "cache-deserialized-values"),
        *("metadata-policy", "merge-policy", "merkle-tree", "wan-replication-ref"),
        *("event-journal", "map-store", "split-brain-protection-ref", "near-cache", "indexes"),
        *("attributes", "query-caches", "entry-listeners", "partition-lost-listeners"),
        *("partition-strategy", "partition-attributes", "tiered-store", "user-code-namespace"),
    ),
    *_refused(
        "queue.*.",
        *("empty-queue-ttl", "statistics-enabled", "queue-store", "merge-policy"),
        *("priority-comparator-class-name", "split-brain-protection-ref", "item-listeners"),
        *("duplicate-allowed", "user-code-namespace"),
    ),
    *_refused(
        "persistence.",
        *("backup-dir", "parallelism", "validation-timeout-seconds", "auto-remove-stale-data"),
        *("data-load-timeout-seconds", "cluster-data-recovery-policy"),
        *("rebalance-delay-seconds", "encryption-at-rest"),
    ),
)
