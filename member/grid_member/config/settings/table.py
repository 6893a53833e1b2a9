"""The table of settings: every element a configuration may hold.

In a path, `*` stands for any name and `[]` for the items of a list. The same table validates, gives
the defaults, and is what the schemas and the table in docs/configuration.md are generated from. The
elements refused by name are in `refused`.
"""

from __future__ import annotations

from typing import Final

from grid_member.config.settings.network import NETWORK, interfaces, port
from grid_member.config.settings.setting import (
    MAX_BACKUPS_MEMBERS,
    MAX_DRAIN_S,
    MAX_TIMEOUT_S,
    RefusedValue,
    Setting,
    choice,
    flag,
    number,
    text,
)
from grid_member.config.settings.wan import WAN, WAN_REFERENCES


def _backups(structure: str) -> tuple[Setting, ...]:
    return (
        number(
            f"{structure}.backup-count",
            1,
            "How many members may be lost at once and no data with them, when there are members "
            "enough; in a cluster 1 or 2, and 0 is 1. Without effect on a single member; both "
            "counts together at most 6.",
            0,
            MAX_BACKUPS_MEMBERS,
        ),
        number(
            f"{structure}.async-backup-count",
            0,
            "Without effect on a single member; in a cluster 0.",
            0,
            MAX_BACKUPS_MEMBERS,
        ),
    )


def _persistence_settings(structure: str) -> tuple[Setting, ...]:
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
    *NETWORK,
    flag(
        "lite-member.enabled",
        False,
        "On: this member of a cluster serves REST, keeps no copies and has no vote.",
    ),
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
    *_persistence_settings("map.*"),
    *WAN_REFERENCES,
    number("queue.*.max-size", 0, "How many items it holds; 0 is no limit."),
    number(
        "queue.*.empty-queue-ttl",
        -1,
        "Without effect: an empty queue holds no memory.",
        -1,
    ),
    *_backups("queue.*"),
    *_persistence_settings("queue.*"),
    *WAN,
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
        "A backup that becomes the data of a `base-dir` that holds none yet, or of a new cluster.",
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
        "How long a member with damaged data waits for `forceStart` or `partialStart`, and "
        "several, 24 s at least, for those that are missing and may have what was in memory only.",
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
        "Plain requests for maps and queues are answered by the fast path; off, or for any other "
        "request, by the complete HTTP implementation, with the same answers.",
    ),
    choice(
        "http.event-loop",
        "auto",
        "What the process waits for its sockets with: uvloop where it is installed, which answers "
        "more requests a second, else asyncio's own loop. A program that starts members chooses "
        "by itself.",
        *("auto", "asyncio", "uvloop"),
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
    number(
        "shutdown.drain-seconds",
        0,
        "How long a member that is told to stop still answers, not ready any more, so that load "
        "balancers notice.",
        0,
        MAX_DRAIN_S,
    ),
    flag(
        "metrics.enabled",
        False,
        "A listener for `GET /metrics` alone, answered in the text format of Prometheus: plain "
        "HTTP, no credentials.",
    ),
    *port("metrics.port", 5703, False, "Metrics port"),
    *interfaces("metrics.interfaces"),
    choice("logging.format", "text", "JSON is one object a line.", "text", "json"),
    choice(
        "logging.level",
        "info",
        "From which level on the log is written.",
        *("debug", "info", "warning", "error"),
    ),
)
