"""The elements that exist elsewhere and are refused here by name.

Silently leaving one out would make a configuration mean less than it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NOT_YET: Final = "is not supported yet"


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """An element that this version does not have, whatever stands below it, and why."""

    path: str
    why: str = NOT_YET


def _refused(prefix: str, *names: str, why: str = NOT_YET) -> tuple[RefusedSetting, ...]:
    return tuple(RefusedSetting(f"{prefix}{name}", why) for name in names)


_ALONE: Final = f"{NOT_YET}: a member runs alone"
_PLAIN: Final = f"{NOT_YET}: listeners speak plain HTTP"
_SECURITY: Final = f"{NOT_YET}, as security.enabled is not"
_ONE_FORM: Final = f"{NOT_YET}: realms have authentication.simple.users"
_NO_NAME: Final = "is not supported: there is one endpoint of a kind, leave the name out"
_NO_ENDPOINT: Final = (
    "is not supported: the endpoints are rest-server-socket-endpoint-config and "
    "management-server-socket-endpoint-config"
)
_ENDPOINTS: Final = (
    "advanced-network.rest-server-socket-endpoint-config.",
    "advanced-network.management-server-socket-endpoint-config.",
)


def _endpoint(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        RefusedSetting(f"{prefix}name", _NO_NAME),
        RefusedSetting(f"{prefix}ssl", _PLAIN),
        RefusedSetting(f"{prefix}symmetric-encryption", _PLAIN),
        *_refused(
            prefix,
            *("socket-options", "socket-interceptor", "reuse-address", "outbound-ports"),
            *("member-address-provider", "port.outbound-ports", "port.reuse-address"),
        ),
    )


REFUSED: Final[tuple[RefusedSetting, ...]] = (
    RefusedSetting("cp-subsystem", f"{NOT_YET}: cp-subsystem calls answer 409"),
    RefusedSetting("wan-replication", f"{NOT_YET}: WAN calls answer 409"),
    RefusedSetting("hot-restart-persistence", f"{NOT_YET} under this name, use persistence"),
    *_refused("", "partition-group", "split-brain-protection", why=_ALONE),
    *_refused(
        "",
        *("properties", "import"),
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
    *_refused("network.", "join", "failure-detector", why=_ALONE),
    *_refused("network.", "ssl", "management.ssl", "symmetric-encryption", why=_PLAIN),
    *_refused(
        "network.",
        *("reuse-address", "outbound-ports", "socket-interceptor"),
        *("member-address-provider", "memcache-protocol", "tpc-socket"),
        "management.port.outbound-ports",
    ),
    *_refused("advanced-network.", "join", "failure-detector", why=_ALONE),
    *_refused(
        "advanced-network.",
        *("member-server-socket-endpoint-config", "client-server-socket-endpoint-config"),
        *("memcache-server-socket-endpoint-config", "wan-server-socket-endpoint-config"),
        "wan-endpoint-config",
        why=_NO_ENDPOINT,
    ),
    RefusedSetting("advanced-network.member-address-provider"),
    *(refused for prefix in _ENDPOINTS for refused in _endpoint(prefix)),
    *_refused(
        "security.",
        *("member-authentication", "client-authentication", "client-permissions", "rest"),
        "client-block-unmapped-actions",
        "client-permission-policy",
        "member-credentials-factory",
        "security-interceptors",
        why=_SECURITY,
    ),
    *_refused(
        "security.realms.[].",
        *("identity", "access-control-service", "authentication.jaas", "authentication.tls"),
        *("authentication.ldap", "authentication.kerberos"),
        *("authentication.simple.role-separator", "authentication.simple.users.[].roles"),
        why=_ONE_FORM,
    ),
    RefusedSetting("map.*.eviction.comparator-class-name"),
    *_refused(
        "map.*.",
        *("statistics-enabled", "per-entry-stats-enabled", "read-backup-data"),
        *("cache-deserialized-values", "metadata-policy", "merge-policy", "merkle-tree"),
        *("wan-replication-ref", "event-journal", "map-store", "split-brain-protection-ref"),
        *("near-cache", "indexes", "attributes", "query-caches", "entry-listeners"),
        *("partition-lost-listeners", "partition-strategy", "partition-attributes"),
        *("tiered-store", "user-code-namespace"),
    ),
    *_refused(
        "queue.*.",
        *("statistics-enabled", "queue-store", "merge-policy"),
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
