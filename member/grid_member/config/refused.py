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


_LISTED: Final = f"{NOT_YET}: list the members in join.tcp-ip.member-list"
_ONE_LIST: Final = "is not supported: write member-list, or members with commas between them"
_PLAIN: Final = f"{NOT_YET}: use ssl"
_FILES: Final = "is not supported: use certificate-file and key-file"
_REST_ONLY: Final = f"{NOT_YET}: there are no clients but those of REST"
_ONE_FORM: Final = f"{NOT_YET}: realms have authentication.simple.users"
_ONE_IDENTITY: Final = f"{NOT_YET}: an identity is a username-password"
_ON_REQUEST: Final = "is not supported: metrics are told to whoever asks their port, when asked"
_NO_NAME: Final = "is not supported: there is one endpoint of a kind, leave the name out"
_NO_ENDPOINT: Final = (
    "is not supported: the endpoints are rest-server-socket-endpoint-config, "
    "management-server-socket-endpoint-config and member-server-socket-endpoint-config"
)
_MEMBERS_ENDPOINT: Final = "advanced-network.member-server-socket-endpoint-config."
_LISTED_PORT: Final = "is not supported: the others go by their member-list, choose one port"
_LISTED_ADDRESS: Final = "is not supported: the others go by their member-list"
_PLAIN_KEY: Final = "is not supported: use a key that is not encrypted"
_MINIMUM_VERSION: Final = f"{NOT_YET}: members speak TLSv1.2 or newer"
_CHECKED: Final = "is not supported: members always check each other, use ca-file"
_ENDPOINTS: Final = (
    "advanced-network.rest-server-socket-endpoint-config.",
    "advanced-network.management-server-socket-endpoint-config.",
    _MEMBERS_ENDPOINT,
)


def _ssl(prefix: str) -> tuple[RefusedSetting, ...]:
    return _refused(prefix, "factory-class-name", "properties", why=_FILES)


def _endpoint(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        RefusedSetting(f"{prefix}name", _NO_NAME),
        *_ssl(f"{prefix}ssl."),
        RefusedSetting(f"{prefix}symmetric-encryption", _PLAIN),
        *_refused(
            prefix,
            *("socket-options", "socket-interceptor", "reuse-address", "outbound-ports"),
            *("member-address-provider", "port.outbound-ports", "port.reuse-address"),
        ),
    )


def _members(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        *_refused(f"{prefix}port.", "auto-increment", "port-count", why=_LISTED_PORT),
        RefusedSetting(f"{prefix}public-address", _LISTED_ADDRESS),
        RefusedSetting(f"{prefix}ssl.key-password", _PLAIN_KEY),
        *_refused(f"{prefix}ssl.", "client-certificates", "client-ca-file", why=_CHECKED),
        RefusedSetting(f"{prefix}ssl.minimum-version", _MINIMUM_VERSION),
    )


def _join(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        RefusedSetting(f"{prefix}failure-detector"),
        *_refused(
            f"{prefix}join.",
            *("auto-detection", "multicast", "aws", "gcp", "azure", "kubernetes", "eureka"),
            "discovery-strategies",
            why=_LISTED,
        ),
        *_refused(
            f"{prefix}join.tcp-ip.",
            *("required-member", "connection-timeout-seconds", "interface", "interfaces"),
        ),
        RefusedSetting(f"{prefix}join.tcp-ip.member", _ONE_LIST),
    )


REFUSED: Final[tuple[RefusedSetting, ...]] = (
    RefusedSetting("wan-replication", f"{NOT_YET}: WAN calls answer 409"),
    RefusedSetting("hot-restart-persistence", f"{NOT_YET} under this name, use persistence"),
    *_refused("", "partition-group", "split-brain-protection"),
    *_refused(
        "",
        *("properties", "import"),
        *("config-replacers", "multimap", "list", "set", "topic", "reliable-topic", "cache"),
        *("ringbuffer", "executor-service", "durable-executor-service"),
        *("scheduled-executor-service", "cardinality-estimator", "flake-id-generator"),
        *("pn-counter", "replicatedmap", "listeners", "serialization", "native-memory"),
        *("member-attributes", "management-center", "instance-tracking"),
        *("user-code-deployment", "auditlog", "jet", "sql", "device", "local-device"),
        *("license-key", "dynamic-configuration", "integrity-checker"),
        *("tpc", "user-code-namespaces", "crdt-replication", "memcache-protocol"),
        *("diagnostics", "vector-collection", "data-connection", "rest"),
    ),
    *_refused(
        "cp-subsystem.",
        *("group-size", "session-time-to-live-seconds", "session-heartbeat-interval-seconds"),
        *("missing-cp-member-auto-removal-seconds", "fail-on-indeterminate-operation-state"),
        *("persistence-enabled", "base-dir", "data-load-timeout-seconds", "cp-member-priority"),
        *("auto-step-down-when-leader", "map-limit", "raft-algorithm", "semaphores", "locks"),
        "maps",
    ),
    *(refused for prefix in ("network.", "advanced-network.") for refused in _join(prefix)),
    *_refused("network.", "symmetric-encryption", why=_PLAIN),
    *_ssl("network.ssl."),
    *_ssl("network.management.ssl."),
    *_refused(
        "network.",
        *("reuse-address", "outbound-ports", "socket-interceptor"),
        *("member-address-provider", "memcache-protocol", "tpc-socket"),
        "management.port.outbound-ports",
    ),
    *_refused(
        "advanced-network.",
        *(
            "client-server-socket-endpoint-config",
            "memcache-server-socket-endpoint-config",
            "wan-server-socket-endpoint-config",
        ),
        "wan-endpoint-config",
        why=_NO_ENDPOINT,
    ),
    RefusedSetting("advanced-network.member-address-provider"),
    *_members("network.cluster."),
    *_ssl("network.cluster.ssl."),
    *_members(_MEMBERS_ENDPOINT),
    *(refused for prefix in _ENDPOINTS for refused in _endpoint(prefix)),
    *_refused(
        "security.",
        *("client-authentication", "client-permissions", "client-block-unmapped-actions"),
        "client-permission-policy",
        "member-credentials-factory",
        "security-interceptors",
        why=_REST_ONLY,
    ),
    *_refused(
        "security.realms.[].",
        *("access-control-service", "authentication.jaas", "authentication.tls"),
        *("authentication.ldap", "authentication.kerberos"),
        *("authentication.simple.role-separator", "authentication.simple.users.[].roles"),
        why=_ONE_FORM,
    ),
    *_refused(
        "security.realms.[].identity.",
        *("token", "kerberos", "credentials-factory"),
        why=_ONE_IDENTITY,
    ),
    *_refused(
        "metrics.",
        *("management-center", "jmx", "collection-frequency-seconds"),
        why=_ON_REQUEST,
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
        *("parallelism", "auto-remove-stale-data", "data-load-timeout-seconds"),
        *("rebalance-delay-seconds", "encryption-at-rest"),
    ),
)
