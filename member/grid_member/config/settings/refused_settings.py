"""The elements that exist elsewhere and are refused here by name unless they are off."""

from __future__ import annotations

from typing import Final

from grid_member.config.settings.refusal import (
    ENABLED,
    LEAVE_OUT,
    NOT_YET,
    RefusedSetting,
    refused_settings,
)
from grid_member.config.settings.wan import BATCH_PUBLISHER

_FALSE: Final = ("false",)
_EITHER: Final = ("true", "false")
_LISTED: Final = f"{NOT_YET}: list the members in join.tcp-ip.member-list"
_ONE_LIST: Final = "is not supported: write member-list, or members with commas between them"
_PLAIN: Final = f"{NOT_YET}: use ssl"
_FILES: Final = "is not supported: use certificate-file and key-file"
_REST_ONLY: Final = f"{NOT_YET}: there are no clients but those of REST"
_ONE_FORM: Final = f"{NOT_YET}: realms have authentication.simple.users"
_NO_ROLES: Final = f"{LEAVE_OUT}, a user of a realm may make every call"
_ONE_IDENTITY: Final = f"{NOT_YET}: an identity is a username-password"
_ON_REQUEST: Final = "is not supported: leave it out, GET /metrics answers whenever it is asked"
_NO_NAME: Final = "is not supported: there is one endpoint of a kind, leave the name out"
_NO_ENDPOINT: Final = (
    "is not supported: leave it out, the endpoints are rest-server-socket-endpoint-config, "
    "management-server-socket-endpoint-config, member-server-socket-endpoint-config and "
    "wan-server-socket-endpoint-config"
)
_MEMBERS_ENDPOINT: Final = "advanced-network.member-server-socket-endpoint-config."
_LISTED_PORT: Final = "is not supported: the others go by their member-list, choose one port"
_LISTED_ADDRESS: Final = "is not supported: the others go by their member-list"
_PLAIN_KEY: Final = "is not supported: use a key that is not encrypted"
_MINIMUM_VERSION: Final = f"{NOT_YET}: members speak TLSv1.2 or newer"
_CHECKED: Final = "is not supported: members always check each other, use ca-file"
_STRUCTURES: Final = f"{LEAVE_OUT}, members have maps and queues"
_ONE_FILE: Final = "is not supported: write everything into one file"
_ELEMENTS: Final = (
    "is not supported: leave it out, what can be set has an element of its own: see the settings"
)
_NO_MERGE: Final = (
    "is not supported: leave it out, a minority of the members takes no writes, so that there is "
    "nothing to merge"
)
_MERGE: Final = (
    *("100", "putifabsentmergepolicy", "com.hazelcast.spi.merge.putifabsentmergepolicy"),
)
"""The policy of whoever chooses none."""
_MAJORITY: Final = "is not supported: leave it out, a minority of the members answers 503"
_NO_CONSOLE: Final = "is not supported: leave it out, use metrics and gridctl"
_NO_COUNT: Final = f"{LEAVE_OUT}, metrics and the usage of the cluster have what is counted"
_KEPT: Final = "is not supported: write data-persistence"
_EVICTION: Final = "is not supported: write eviction"
_GROUP: Final = "is not supported: write cluster-name, and what members show in security.realms"
_MAPS_ONLY: Final = "is not supported: leave it out, maps are replicated and queues are not"
_PUBLISHER: Final = f"{BATCH_PUBLISHER}.*."
_BATCHES: Final = "is not supported: write batch-publisher"
_NO_CLASS: Final = "is not supported: leave it out, merge-policy-class-name says what a change does"
_ANY_WAY: Final = "is not supported: leave it out, the member connects from any of its addresses"
_TLS_AND_REALM: Final = "is not supported: use realm, ssl and compression"
_BY_ITSELF: Final = "is not supported: leave it out, a publisher with nothing to send sleeps"
_DNS_NAMES: Final = "is not supported: write DNS names of the target in target-endpoints"
_TARGET_FILES: Final = "is not supported: use certificate-file and ca-file"
_KEY_FILTER: Final = "is not supported: use key-filter with include and exclude"
_ENDPOINTS: Final = (
    "advanced-network.rest-server-socket-endpoint-config.",
    "advanced-network.management-server-socket-endpoint-config.",
    "advanced-network.wan-server-socket-endpoint-config.",
    _MEMBERS_ENDPOINT,
)


def _ssl(prefix: str) -> tuple[RefusedSetting, ...]:
    return refused_settings(prefix, "factory-class-name", "properties", why=_FILES, empty=True)


def _sockets(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        *refused_settings(prefix, "reuse-address", off=_FALSE),
        *refused_settings(prefix, "outbound-ports", off=("0", "*"), empty=True),
        *refused_settings(prefix, "socket-interceptor", "member-address-provider", switch=ENABLED),
        *refused_settings(prefix, "symmetric-encryption", why=_PLAIN, switch=ENABLED),
    )


def _endpoint(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        RefusedSetting(f"{prefix}name", _NO_NAME),
        *_ssl(f"{prefix}ssl."),
        *_sockets(prefix),
        *refused_settings(prefix, "socket-options", empty=True),
        *refused_settings(prefix, "port.outbound-ports", off=("0", "*"), empty=True),
        *refused_settings(prefix, "port.reuse-address", off=_FALSE),
    )


def _members(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        *refused_settings(f"{prefix}port.", "auto-increment", why=_LISTED_PORT, off=_FALSE),
        *refused_settings(f"{prefix}port.", "port-count", why=_LISTED_PORT, off=("1",)),
        RefusedSetting(f"{prefix}public-address", _LISTED_ADDRESS),
        RefusedSetting(f"{prefix}ssl.key-password", _PLAIN_KEY),
        *refused_settings(f"{prefix}ssl.", "client-certificates", "client-ca-file", why=_CHECKED),
        RefusedSetting(f"{prefix}ssl.minimum-version", _MINIMUM_VERSION),
    )


def _join(prefix: str) -> tuple[RefusedSetting, ...]:
    return (
        *refused_settings(f"{prefix}failure-detector.", "icmp", switch=ENABLED),
        *refused_settings(
            f"{prefix}join.",
            *("auto-detection", "multicast", "aws", "gcp", "azure", "kubernetes", "eureka"),
            why=_LISTED,
            switch=ENABLED,
        ),
        *refused_settings(f"{prefix}join.", "discovery-strategies", why=_LISTED, empty=True),
        *refused_settings(
            f"{prefix}join.tcp-ip.", "required-member", "interface", "interfaces", empty=True
        ),
        *refused_settings(f"{prefix}join.tcp-ip.", "connection-timeout-seconds"),
        RefusedSetting(f"{prefix}join.tcp-ip.member", _ONE_LIST),
    )


_TOP: Final = (
    RefusedSetting("hot-restart-persistence", "is not supported: write persistence", ENABLED),
    *refused_settings("", "partition-group", switch=ENABLED),
    *refused_settings(
        "", "split-brain-protection", "quorum", why=_MAJORITY, switch=ENABLED, empty=True
    ),
    *refused_settings("", "properties", why=_ELEMENTS, empty=True),
    *refused_settings("", "import", "config-replacers", why=_ONE_FILE, empty=True),
    *refused_settings(
        "",
        *("multimap", "list", "set", "topic", "reliable-topic", "cache", "ringbuffer"),
        *("executor-service", "durable-executor-service", "scheduled-executor-service"),
        *("cardinality-estimator", "flake-id-generator", "pn-counter", "replicatedmap"),
        *("semaphore", "lock", "countdown-latch", "atomic-long", "atomic-reference"),
        *("vector-collection", "data-connection", "external-data-store", "services"),
        why=_STRUCTURES,
        empty=True,
    ),
    *refused_settings("", "event-journal", "merkle-tree", switch=ENABLED, empty=True),
    *refused_settings("", "listeners", "member-attributes", "device", "local-device", empty=True),
    *refused_settings(
        "", "serialization", "sql", "crdt-replication", off=("0", *_EITHER), empty=True
    ),
    *refused_settings(
        "", "native-memory", "instance-tracking", "user-code-deployment", switch=ENABLED
    ),
    *refused_settings(
        "", "auditlog", "jet", "integrity-checker", "tpc", "diagnostics", switch=ENABLED
    ),
    *refused_settings("", "user-code-namespaces", "memcache-protocol", switch=ENABLED),
    *refused_settings("", "dynamic-configuration", switch="persistence-enabled"),
    RefusedSetting("rest", "is not supported: write network.rest-api", ENABLED),
    *refused_settings(
        "",
        *("management-center", "mancenter"),
        why=_NO_CONSOLE,
        switch=ENABLED,
        off=_FALSE,
        empty=True,
    ),
    RefusedSetting("license-key", "is not supported: leave it out, none is needed", empty=True),
    RefusedSetting("group", _GROUP),
)
_CP: Final = (
    *refused_settings("cp-subsystem.", "group-size", "cp-member-priority", off=("0",)),
    *refused_settings(
        "cp-subsystem.",
        *("persistence-enabled", "fail-on-indeterminate-operation-state"),
        "auto-step-down-when-leader",
        off=_FALSE,
    ),
    *refused_settings(
        "cp-subsystem.",
        *("session-time-to-live-seconds", "session-heartbeat-interval-seconds"),
        *("missing-cp-member-auto-removal-seconds", "base-dir", "data-load-timeout-seconds"),
        *("map-limit", "raft-algorithm", "semaphores", "locks", "maps"),
        empty=True,
    ),
)
_NETWORK: Final = (
    *(each for prefix in ("network.", "advanced-network.") for each in _join(prefix)),
    *_sockets("network."),
    *_ssl("network.ssl."),
    *_ssl("network.management.ssl."),
    *_ssl("network.wan.ssl."),
    *refused_settings("network.", "memcache-protocol", "tpc-socket", switch=ENABLED),
    *refused_settings("network.", "asymmetric-encryption", why=_PLAIN, switch=ENABLED),
    *refused_settings(
        "network.",
        *("management.port.outbound-ports", "wan.port.outbound-ports"),
        off=("0", "*"),
        empty=True,
    ),
    *refused_settings(
        "advanced-network.",
        *(
            "client-server-socket-endpoint-config",
            "memcache-server-socket-endpoint-config",
        ),
        "wan-endpoint-config",
        why=_NO_ENDPOINT,
    ),
    *refused_settings("advanced-network.", "member-address-provider", switch=ENABLED),
    *_members("network.cluster."),
    *_ssl("network.cluster.ssl."),
    *_members(_MEMBERS_ENDPOINT),
    *(each for prefix in _ENDPOINTS for each in _endpoint(prefix)),
)
_SECURITY: Final = (
    *refused_settings("security.", "client-block-unmapped-actions", why=_REST_ONLY, off=_EITHER),
    *refused_settings(
        "security.",
        *("client-authentication", "client-permissions", "client-permission-policy"),
        "member-credentials-factory",
        "security-interceptors",
        why=_REST_ONLY,
        empty=True,
    ),
    *refused_settings(
        "security.realms.[].",
        *("access-control-service", "authentication.jaas", "authentication.tls"),
        *("authentication.ldap", "authentication.kerberos"),
        why=_ONE_FORM,
    ),
    *refused_settings(
        "security.realms.[].authentication.simple.",
        *("role-separator", "users.[].roles"),
        why=_NO_ROLES,
        empty=True,
    ),
    *refused_settings(
        "security.realms.[].identity.",
        *("token", "kerberos", "credentials-factory"),
        why=_ONE_IDENTITY,
    ),
)
_MAP: Final = (
    *refused_settings("map.*.eviction.", "comparator-class-name", empty=True),
    *refused_settings("map.*.", "statistics-enabled", why=_NO_COUNT, off=_EITHER),
    *refused_settings("map.*.", "per-entry-stats-enabled", why=_NO_COUNT, off=_FALSE),
    *refused_settings("map.*.", "read-backup-data", off=_FALSE),
    *refused_settings("map.*.", "cache-deserialized-values", off=("never", "index-only")),
    *refused_settings("map.*.", "metadata-policy", off=("create_on_update", "off")),
    *refused_settings("map.*.", "merge-policy", why=_NO_MERGE, off=_MERGE, empty=True),
    *refused_settings("map.*.", "event-journal", "map-store", "tiered-store", switch=ENABLED),
    *refused_settings(
        "map.*.", "split-brain-protection-ref", "quorum-ref", why=_MAJORITY, empty=True
    ),
    *refused_settings(
        "map.*.",
        *("indexes", "attributes", "query-caches", "entry-listeners"),
        *("partition-lost-listeners", "partition-strategy", "partition-attributes"),
        *("user-code-namespace", "optimize-queries"),
        empty=True,
    ),
    *refused_settings("map.*.", "near-cache", switch=ENABLED),
    *refused_settings("map.*.", "hot-restart", why=_KEPT),
    *refused_settings("map.*.", "eviction-policy", why=_EVICTION, off=("none",)),
    *refused_settings("map.*.", "max-size", why=_EVICTION, off=("0", "2147483647")),
    *refused_settings("map.*.", "eviction-percentage", "min-eviction-check-millis", why=_EVICTION),
)
_QUEUE: Final = (
    *refused_settings("queue.*.", "statistics-enabled", why=_NO_COUNT, off=_EITHER),
    *refused_settings("queue.*.", "queue-store", switch=ENABLED),
    *refused_settings("queue.*.", "merge-policy", why=_NO_MERGE, off=_MERGE, empty=True),
    *refused_settings(
        "queue.*.", "split-brain-protection-ref", "quorum-ref", why=_MAJORITY, empty=True
    ),
    *refused_settings(
        "queue.*.",
        *("priority-comparator-class-name", "item-listeners", "user-code-namespace"),
        empty=True,
    ),
    *refused_settings("queue.*.", "duplicate-allowed"),
    *refused_settings("queue.*.", "wan-replication-ref", why=_MAPS_ONLY, empty=True),
)

_WAN: Final = (
    RefusedSetting("wan-replication.*.custom-publisher", _BATCHES, empty=True),
    *refused_settings(
        "wan-replication.*.", "wan-publisher", "wan-consumer", why=_BATCHES, empty=True
    ),
    *refused_settings(
        "wan-replication.*.consumer.", "class-name", "properties", why=_NO_CLASS, empty=True
    ),
    RefusedSetting(f"{_PUBLISHER}endpoint", _ANY_WAY, empty=True),
    RefusedSetting(f"{_PUBLISHER}properties", _TLS_AND_REALM, empty=True),
    RefusedSetting(f"{_PUBLISHER}idle-min-park-ns", _BY_ITSELF, off=("10000000",)),
    RefusedSetting(f"{_PUBLISHER}idle-max-park-ns", _BY_ITSELF, off=("250000000",)),
    *refused_settings(
        _PUBLISHER,
        *("aws", "gcp", "azure", "kubernetes", "eureka"),
        why=_DNS_NAMES,
        switch=ENABLED,
        empty=True,
    ),
    *refused_settings(_PUBLISHER, "discovery-strategies", why=_DNS_NAMES, empty=True),
    *refused_settings(f"{_PUBLISHER}ssl.", "factory-class-name", "properties", why=_FILES),
    *refused_settings(
        f"{_PUBLISHER}ssl.", "client-certificates", "client-ca-file", why=_TARGET_FILES
    ),
    RefusedSetting("map.*.wan-replication-ref.*.filters", _KEY_FILTER, empty=True),
)

REFUSED: Final[tuple[RefusedSetting, ...]] = (
    *_TOP,
    *_CP,
    *_NETWORK,
    *_SECURITY,
    *refused_settings("metrics.", "management-center", "jmx", why=_ON_REQUEST, switch=ENABLED),
    *refused_settings("metrics.", "collection-frequency-seconds", why=_ON_REQUEST),
    *_MAP,
    *_QUEUE,
    *_WAN,
    *refused_settings("persistence.", "parallelism", off=("1",)),
    *refused_settings("persistence.", "auto-remove-stale-data", off=_EITHER),
    *refused_settings("persistence.", "rebalance-delay-seconds", off=("0",)),
    *refused_settings("persistence.", "data-load-timeout-seconds"),
    *refused_settings("persistence.", "encryption-at-rest", switch=ENABLED),
)
