"""The table of settings: every element a configuration may hold.

In a path, `*` stands for any name and `[]` for the items of a list. The same table validates, gives
the defaults, and is what the schemas and the table in docs/configuration.md are generated from. The
elements refused by name are in `refused`.
"""

from __future__ import annotations

from typing import Final

from grid_member.config.setting import (
    MAX_BACKUPS_MEMBERS,
    MAX_PORT,
    MAX_TIMEOUT_S,
    RefusedValue,
    Setting,
    choice,
    flag,
    number,
    text,
)


def _port(section: str, port: int, auto_increment: bool, title: str) -> tuple[Setting, ...]:
    return (
        number(f"{section}.port", port, f"{title}; 0 takes any free one.", 0, MAX_PORT),
        flag(f"{section}.auto-increment", auto_increment, "Try the next port when one is taken."),
        number(f"{section}.port-count", 100, "How many ports are tried.", 1, MAX_PORT),
    )


def _interfaces(section: str) -> tuple[Setting, ...]:
    return (
        flag(f"{section}.enabled", False, "Off: every address is listened on."),
        text(f"{section}.interfaces.[]", None, "IP address to listen on; `*` is any."),
    )


def _join(section: str) -> tuple[Setting, ...]:
    return (
        flag(
            f"{section}.tcp-ip.enabled",
            False,
            "Keep a list of members to join. Nobody is asked yet: a member runs alone.",
        ),
        text(
            f"{section}.tcp-ip.member-list.[]",
            None,
            "Address of a member: host, host:port, [IPv6] or [IPv6]:port.",
        ),
    )


def _backups(structure: str) -> tuple[Setting, ...]:
    return (
        number(
            f"{structure}.backup-count",
            1,
            "Without effect on a single member; both counts together at most 6.",
            0,
            MAX_BACKUPS_MEMBERS,
        ),
        number(
            f"{structure}.async-backup-count",
            0,
            "Without effect on a single member.",
            0,
            MAX_BACKUPS_MEMBERS,
        ),
    )


def _kept(structure: str) -> tuple[Setting, ...]:
    return (
        flag(
            f"{structure}.data-persistence.enabled",
            None,
            "Whether the data is written to disk. Default: as `persistence.enabled`.",
        ),
        flag(
            f"{structure}.data-persistence.fsync",
            None,
            "Whether a write is answered only when it survives a power loss. Default: true where "
            "the data is written to disk.",
        ),
    )


def _ssl(section: str) -> tuple[Setting, ...]:
    return (
        flag(f"{section}.enabled", False, "On: this port speaks TLS and nothing else."),
        text(
            f"{section}.certificate-file",
            None,
            "Required with it: PEM, the certificate and after it the intermediate ones. A changed "
            "file is taken within 10 seconds; open connections stay.",
        ),
        text(f"{section}.key-file", None, "Required with it: PEM, the certificate's private key."),
        text(f"{section}.key-password", None, "Of an encrypted key; never shown or logged."),
        choice(
            f"{section}.minimum-version",
            "TLSv1.2",
            "Older versions are refused.",
            *("TLSv1.2", "TLSv1.3"),
        ),
        choice(
            f"{section}.client-certificates",
            "none",
            "Whether clients show certificates: `optional` checks those that are sent; with "
            "`required` nobody connects without one, probes neither.",
            *("none", "optional", "required"),
        ),
        text(
            f"{section}.client-ca-file",
            None,
            "Required with client-certificates: PEM, the authorities that they are from.",
        ),
    )


_REST_GROUPS: Final = "Default: CLUSTER_READ and HEALTH_CHECK on, the others off."
_NETWORK_GROUP_NAMES: Final = "Group names in any case, underscores optional."
_ADVANCED_GROUP_NAMES: Final = "Group names exactly as listed."
_REST_ENDPOINT: Final = "advanced-network.rest-server-socket-endpoint-config"
_MANAGEMENT_ENDPOINT: Final = "advanced-network.management-server-socket-endpoint-config"
_REALM: Final = "Required with it: the name of a realm in `security.realms`."

_HEAP_INSTEAD: Final = "use USED_HEAP_SIZE"
_REFUSED_SIZE_POLICIES: Final = (
    RefusedValue("PER_PARTITION", "use PER_NODE"),
    RefusedValue("USED_HEAP_PERCENTAGE", _HEAP_INSTEAD),
    RefusedValue("FREE_HEAP_SIZE", _HEAP_INSTEAD),
    RefusedValue("FREE_HEAP_PERCENTAGE", _HEAP_INSTEAD),
    RefusedValue("USED_NATIVE_MEMORY_SIZE", _HEAP_INSTEAD),
    RefusedValue("USED_NATIVE_MEMORY_PERCENTAGE", _HEAP_INSTEAD),
    RefusedValue("FREE_NATIVE_MEMORY_SIZE", _HEAP_INSTEAD),
    RefusedValue("FREE_NATIVE_MEMORY_PERCENTAGE", _HEAP_INSTEAD),
)
_REFUSED_FORMATS: Final = (
    RefusedValue("OBJECT", "values are bytes, use BINARY"),
    RefusedValue("NATIVE", "values are bytes, use BINARY"),
)

SETTINGS: Final[tuple[Setting, ...]] = (
    text("cluster-name", "dev", "First part of every management body; no `&`.", forbidden="&"),
    text(
        "instance-name",
        None,
        "Shown by `/grid/rest/instance`. Default: `grid-` and the host name.",
    ),
    *_port("network.port", 5701, True, "REST port"),
    text(
        "network.public-address",
        None,
        "Host, or host and port, shown in the cluster document. Default: the address listened on.",
    ),
    *_interfaces("network.interfaces"),
    *_join("network.join"),
    *_ssl("network.ssl"),
    flag("network.rest-api.enabled", False, "Off: no REST port is opened."),
    flag(
        "network.rest-api.endpoint-groups.*.enabled",
        None,
        f"{_REST_GROUPS} {_NETWORK_GROUP_NAMES}",
    ),
    flag(
        "network.management.enabled",
        False,
        "A second listener that always asks for HTTP Basic authentication, but for the two probe "
        "paths.",
    ),
    *_port("network.management.port", 5702, False, "Management port"),
    flag("network.management.endpoint-groups.*.enabled", True, _NETWORK_GROUP_NAMES),
    text("network.management.realm", None, _REALM),
    *_ssl("network.management.ssl"),
    flag(
        "advanced-network.enabled",
        False,
        "On: the listeners are configured here, and `network` must not be there. Off: the rest of "
        "this section is checked and has no effect.",
    ),
    *_join("advanced-network.join"),
    *_port(f"{_REST_ENDPOINT}.port", 5701, True, "REST port"),
    text(
        f"{_REST_ENDPOINT}.public-address",
        None,
        "Host, or host and port, shown in the cluster document. Default: the address listened on.",
    ),
    *_interfaces(f"{_REST_ENDPOINT}.interfaces"),
    flag(
        f"{_REST_ENDPOINT}.endpoint-groups.*.enabled",
        None,
        f"{_REST_GROUPS} {_ADVANCED_GROUP_NAMES}",
    ),
    *_ssl(f"{_REST_ENDPOINT}.ssl"),
    *_port(f"{_MANAGEMENT_ENDPOINT}.port", 5702, False, "Management port"),
    *_interfaces(f"{_MANAGEMENT_ENDPOINT}.interfaces"),
    flag(f"{_MANAGEMENT_ENDPOINT}.endpoint-groups.*.enabled", True, _ADVANCED_GROUP_NAMES),
    text(f"{_MANAGEMENT_ENDPOINT}.realm", None, _REALM),
    *_ssl(f"{_MANAGEMENT_ENDPOINT}.ssl"),
    flag(
        "security.enabled",
        False,
        "Off: management, WAN and CP calls begin with the cluster's name. On: with a user and "
        "password of the member realm, or they carry HTTP Basic authentication.",
    ),
    text(
        "security.member-authentication.realm",
        None,
        "Required with it: the member realm, the name of a realm in `security.realms`.",
    ),
    text(
        "security.rest.protected.[]",
        None,
        "Endpoint group, or path with all below it, that asks for HTTP Basic authentication by a "
        "user of the member realm. `/grid/health/ready` and `/grid/health/node-state` never do.",
    ),
    text("security.realms.[].name", None, "What `realm` elements refer to."),
    text(
        "security.realms.[].authentication.simple.users.[].username",
        None,
        "Of a user who may call; no colon.",
    ),
    text(
        "security.realms.[].authentication.simple.users.[].password",
        None,
        "Of the same user; never shown or logged.",
    ),
    text(
        "security.realms.[].identity.username-password.username",
        None,
        "Who this member says it is to the others; in a realm without users also who may call.",
    ),
    text(
        "security.realms.[].identity.username-password.password",
        None,
        "Of the same identity; never shown or logged.",
    ),
    number(
        "map.*.time-to-live-seconds",
        0,
        "How long an entry lives after its last write; 0 is for ever.",
    ),
    number(
        "map.*.max-idle-seconds",
        0,
        "How long an entry lives after its last write or read; 0 is for ever.",
    ),
    choice(
        "map.*.eviction.eviction-policy",
        "NONE",
        "Which entries go when the map is over its size: the least recently used, the least "
        "frequently used, or any.",
        *("NONE", "LRU", "LFU", "RANDOM"),
    ),
    choice(
        "map.*.eviction.max-size-policy",
        "PER_NODE",
        "What `size` counts: PER_NODE entries, USED_HEAP_SIZE megabytes (2^20 bytes) of the map's "
        "keys and values.",
        *("PER_NODE", "USED_HEAP_SIZE"),
        refused=_REFUSED_SIZE_POLICIES,
    ),
    number("map.*.eviction.size", 0, "Required with a policy; 0 is no limit."),
    choice(
        "map.*.in-memory-format",
        "BINARY",
        "Values are bytes, whatever is stored.",
        "BINARY",
        refused=_REFUSED_FORMATS,
    ),
    *_backups("map.*"),
    *_kept("map.*"),
    number("queue.*.max-size", 0, "How many items it holds; 0 is no limit."),
    number(
        "queue.*.empty-queue-ttl",
        -1,
        "Without effect: an empty queue holds no memory.",
        -1,
    ),
    *_backups("queue.*"),
    *_kept("queue.*"),
    flag("persistence.enabled", False, "Maps and queues survive a crash and a power loss."),
    text(
        "persistence.base-dir",
        "persistence",
        "Relative to the working directory; one member a directory.",
    ),
    text(
        "persistence.backup-dir",
        None,
        "Where backups are made, outside of `base-dir`. Without it there are none.",
    ),
    text(
        "persistence.restore-from",
        None,
        "A backup that becomes the data of a `base-dir` that holds none yet.",
    ),
    choice(
        "persistence.cluster-data-recovery-policy",
        "FULL_RECOVERY_ONLY",
        "Whether `partialStart` may go on with what can be read of damaged data.",
        *("FULL_RECOVERY_ONLY", "PARTIAL_RECOVERY_MOST_RECENT"),
        "PARTIAL_RECOVERY_MOST_COMPLETE",
    ),
    number(
        "persistence.validation-timeout-seconds",
        120,
        "How long a member with damaged data waits for `forceStart` or `partialStart`.",
    ),
    number(
        "cp-subsystem.cp-member-count",
        0,
        "0: CP calls answer 409. From 3 on (1 and 2 are errors) they show what there is, also on "
        "fewer members.",
    ),
    number("limits.name-bytes", 255, "Longer names: 414.", 1, 4096),
    number("limits.key-bytes", 8 << 10, "Longer keys: 414.", 1, 64 << 10),
    number("limits.value-bytes", 8 << 20, "Larger bodies: 413.", 1, 1 << 30),
    number("limits.header-bytes", 64 << 10, "Larger header blocks: 431.", 1 << 10, 1 << 20),
    flag(
        "http.lane.enabled",
        True,
        "Plain requests for maps and queues are answered by the fast lane; off, or for any other "
        "request, by the complete HTTP implementation, with the same answers.",
    ),
    number(
        "http.max-connections",
        10_000,
        "Of one listener; more are answered 503 and closed, but for probes.",
        1,
        1_000_000,
    ),
    number(
        "http.idle-timeout-seconds",
        3600,
        "A connection without a request for so long is closed.",
        1,
        MAX_TIMEOUT_S,
    ),
    number(
        "http.head-timeout-seconds",
        30,
        "How long a head may take from its first byte to its last: 408.",
        1,
        MAX_TIMEOUT_S,
    ),
    number(
        "http.body-timeout-seconds", 60, "How long a body may stand still: 408.", 1, MAX_TIMEOUT_S
    ),
    number(
        "http.write-timeout-seconds",
        60,
        "How long a client may read nothing of an answer that waits for it; then it is cut off.",
        1,
        MAX_TIMEOUT_S,
    ),
    text(
        "shutdown.parked-file",
        None,
        "Written by `memberShutdown` and `clusterShutdown` before they answer; a member that finds "
        "it stays parked. In a directory that is there, outside of `base-dir`.",
    ),
    flag(
        "metrics.enabled",
        False,
        "A listener for `GET /metrics` alone, answered in the text format of Prometheus: plain "
        "HTTP, no credentials.",
    ),
    *_port("metrics.port", 5703, False, "Metrics port"),
    *_interfaces("metrics.interfaces"),
    choice("logging.format", "text", "JSON is one object a line.", "text", "json"),
    choice(
        "logging.level",
        "info",
        "From which level on the log is written.",
        *("debug", "info", "warning", "error"),
    ),
)
