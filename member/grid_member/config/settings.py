"""The table of settings: every element a configuration may hold.

In a path, `*` stands for any name and `[]` for the items of a list. The same table validates, gives
the defaults, and is what the schemas and the table in docs/configuration.md are generated from. The
elements refused by name are in `refused`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | str

MAX_COUNT: Final = 2**31 - 1
MAX_PORT: Final = 65535
MAX_BACKUPS_MEMBERS: Final = 6
HEAP_UNIT_BYTES: Final = 1 << 20
"""What one unit of `size` is with `USED_HEAP_SIZE`."""


class Kind(enum.Enum):
    """What a setting's text is turned into."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class RefusedValue:
    """A value that exists elsewhere and not here, with what to write instead."""

    value: str
    instead: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One supported leaf. `choices` are compared without case and given back as listed."""

    path: str
    kind: Kind
    default: Value | None
    about: str
    low: int = 0
    high: int = MAX_COUNT
    choices: tuple[str, ...] = ()
    refused_values: tuple[RefusedValue, ...] = ()
    forbidden: str = ""
    """A character that a text must not contain."""


def _flag(path: str, default: bool | None, about: str) -> Setting:
    return Setting(path, Kind.BOOLEAN, default, about)


def _number(path: str, default: int, about: str, low: int = 0, high: int = MAX_COUNT) -> Setting:
    return Setting(path, Kind.INTEGER, default, about, low, high)


def _text(path: str, default: str | None, about: str, forbidden: str = "") -> Setting:
    return Setting(path, Kind.STRING, default, about, forbidden=forbidden)


def _choice(
    path: str, default: str, about: str, *choices: str, refused: tuple[RefusedValue, ...] = ()
) -> Setting:
    return Setting(path, Kind.STRING, default, about, choices=choices, refused_values=refused)


def _port(section: str, port: int, auto_increment: bool, title: str) -> tuple[Setting, ...]:
    return (
        _number(f"{section}.port", port, f"{title}; 0 takes any free one.", 0, MAX_PORT),
        _flag(f"{section}.auto-increment", auto_increment, "Try the next port when one is taken."),
        _number(f"{section}.port-count", 100, "How many ports are tried.", 1, MAX_PORT),
    )


def _interfaces(section: str) -> tuple[Setting, ...]:
    return (
        _flag(f"{section}.enabled", False, "Off: every address is listened on."),
        _text(f"{section}.interfaces.[]", None, "IP address to listen on; `*` is any."),
    )


def _join(section: str) -> tuple[Setting, ...]:
    return (
        _flag(
            f"{section}.tcp-ip.enabled",
            False,
            "Keep a list of members to join. Nobody is asked yet: a member runs alone.",
        ),
        _text(
            f"{section}.tcp-ip.member-list.[]",
            None,
            "Address of a member: host, host:port, [IPv6] or [IPv6]:port.",
        ),
    )


def _backups(structure: str) -> tuple[Setting, ...]:
    return (
        _number(
            f"{structure}.backup-count",
            1,
            "Without effect on a single member; both counts together at most 6.",
            0,
            MAX_BACKUPS_MEMBERS,
        ),
        _number(
            f"{structure}.async-backup-count",
            0,
            "Without effect on a single member.",
            0,
            MAX_BACKUPS_MEMBERS,
        ),
    )


def _kept(structure: str) -> tuple[Setting, ...]:
    return (
        _flag(
            f"{structure}.data-persistence.enabled",
            None,
            "Whether the data is written to disk. Default: as `persistence.enabled`.",
        ),
        _flag(
            f"{structure}.data-persistence.fsync",
            None,
            "Whether a write is answered only when it survives a power loss. Default: true where "
            "the data is written to disk.",
        ),
    )


def _ssl(section: str) -> tuple[Setting, ...]:
    return (
        _flag(f"{section}.enabled", False, "On: this port speaks TLS and nothing else."),
        _text(
            f"{section}.certificate-file",
            None,
            "Required with it: PEM, the certificate and after it the intermediate ones. A changed "
            "file is taken within 10 seconds; open connections stay.",
        ),
        _text(f"{section}.key-file", None, "Required with it: PEM, the certificate's private key."),
        _text(f"{section}.key-password", None, "Of an encrypted key; never shown or logged."),
        _choice(
            f"{section}.minimum-version",
            "TLSv1.2",
            "Older versions are refused.",
            *("TLSv1.2", "TLSv1.3"),
        ),
        _choice(
            f"{section}.client-certificates",
            "none",
            "Whether clients show certificates: `optional` checks those that are sent; with "
            "`required` nobody connects without one, probes neither.",
            *("none", "optional", "required"),
        ),
        _text(
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
    _text("cluster-name", "dev", "First part of every management body; no `&`.", forbidden="&"),
    _text(
        "instance-name",
        None,
        "Shown by `/grid/rest/instance`. Default: `grid-` and the host name.",
    ),
    *_port("network.port", 5701, True, "REST port"),
    _text(
        "network.public-address",
        None,
        "Host, or host and port, shown in the cluster document. Default: the address listened on.",
    ),
    *_interfaces("network.interfaces"),
    *_join("network.join"),
    *_ssl("network.ssl"),
    _flag("network.rest-api.enabled", False, "Off: no REST port is opened."),
    _flag(
        "network.rest-api.endpoint-groups.*.enabled",
        None,
        f"{_REST_GROUPS} {_NETWORK_GROUP_NAMES}",
    ),
    _flag(
        "network.management.enabled",
        False,
        "A second listener that always asks for HTTP Basic authentication, but for the two probe "
        "paths.",
    ),
    *_port("network.management.port", 5702, False, "Management port"),
    _flag("network.management.endpoint-groups.*.enabled", True, _NETWORK_GROUP_NAMES),
    _text("network.management.realm", None, _REALM),
    *_ssl("network.management.ssl"),
    _flag(
        "advanced-network.enabled",
        False,
        "On: the listeners are configured here, and `network` must not be there. Off: the rest of "
        "this section is checked and has no effect.",
    ),
    *_join("advanced-network.join"),
    *_port(f"{_REST_ENDPOINT}.port", 5701, True, "REST port"),
    _text(
        f"{_REST_ENDPOINT}.public-address",
        None,
        "Host, or host and port, shown in the cluster document. Default: the address listened on.",
    ),
    *_interfaces(f"{_REST_ENDPOINT}.interfaces"),
    _flag(
        f"{_REST_ENDPOINT}.endpoint-groups.*.enabled",
        None,
        f"{_REST_GROUPS} {_ADVANCED_GROUP_NAMES}",
    ),
    *_ssl(f"{_REST_ENDPOINT}.ssl"),
    *_port(f"{_MANAGEMENT_ENDPOINT}.port", 5702, False, "Management port"),
    *_interfaces(f"{_MANAGEMENT_ENDPOINT}.interfaces"),
    _flag(f"{_MANAGEMENT_ENDPOINT}.endpoint-groups.*.enabled", True, _ADVANCED_GROUP_NAMES),
    _text(f"{_MANAGEMENT_ENDPOINT}.realm", None, _REALM),
    *_ssl(f"{_MANAGEMENT_ENDPOINT}.ssl"),
    _flag(
        "security.enabled",
        False,
        "Off: management, WAN and CP calls begin with the cluster's name. On: with a user and "
        "password of the member realm, or they carry HTTP Basic authentication.",
    ),
    _text(
        "security.member-authentication.realm",
        None,
        "Required with it: the member realm, the name of a realm in `security.realms`.",
    ),
    _text(
        "security.rest.protected.[]",
        None,
        "Endpoint group, or path with all below it, that asks for HTTP Basic authentication by a "
        "user of the member realm. `/grid/health/ready` and `/grid/health/node-state` never do.",
    ),
    _text("security.realms.[].name", None, "What `realm` elements refer to."),
    _text(
        "security.realms.[].authentication.simple.users.[].username",
        None,
        "Of a user who may call; no colon.",
    ),
    _text(
        "security.realms.[].authentication.simple.users.[].password",
        None,
        "Of the same user; never shown or logged.",
    ),
    _text(
        "security.realms.[].identity.username-password.username",
        None,
        "Who this member says it is to the others; in a realm without users also who may call.",
    ),
    _text(
        "security.realms.[].identity.username-password.password",
        None,
        "Of the same identity; never shown or logged.",
    ),
    _number(
        "map.*.time-to-live-seconds",
        0,
        "How long an entry lives after its last write; 0 is for ever.",
    ),
    _number(
        "map.*.max-idle-seconds",
        0,
        "How long an entry lives after its last write or read; 0 is for ever.",
    ),
    _choice(
        "map.*.eviction.eviction-policy",
        "NONE",
        "Which entries go when the map is over its size: the least recently used, the least "
        "frequently used, or any.",
        *("NONE", "LRU", "LFU", "RANDOM"),
    ),
    _choice(
        "map.*.eviction.max-size-policy",
        "PER_NODE",
        "What `size` counts: PER_NODE entries, USED_HEAP_SIZE megabytes (2^20 bytes) of the map's "
        "keys and values.",
        *("PER_NODE", "USED_HEAP_SIZE"),
        refused=_REFUSED_SIZE_POLICIES,
    ),
    _number("map.*.eviction.size", 0, "Required with a policy; 0 is no limit."),
    _choice(
        "map.*.in-memory-format",
        "BINARY",
        "Values are bytes, whatever is stored.",
        "BINARY",
        refused=_REFUSED_FORMATS,
    ),
    *_backups("map.*"),
    *_kept("map.*"),
    _number("queue.*.max-size", 0, "How many items it holds; 0 is no limit."),
    _number(
        "queue.*.empty-queue-ttl",
        -1,
        "Without effect: an empty queue holds no memory.",
        -1,
    ),
    *_backups("queue.*"),
    *_kept("queue.*"),
    _flag("persistence.enabled", False, "Maps and queues survive a crash and a power loss."),
    _text(
        "persistence.base-dir",
        "persistence",
        "Relative to the working directory; one member a directory.",
    ),
    _text(
        "persistence.backup-dir",
        None,
        "Where backups are made, outside of `base-dir`. Without it there are none.",
    ),
    _text(
        "persistence.restore-from",
        None,
        "A backup that becomes the data of a `base-dir` that holds none yet.",
    ),
    _choice(
        "persistence.cluster-data-recovery-policy",
        "FULL_RECOVERY_ONLY",
        "Whether `partialStart` may go on with what can be read of damaged data.",
        *("FULL_RECOVERY_ONLY", "PARTIAL_RECOVERY_MOST_RECENT"),
        "PARTIAL_RECOVERY_MOST_COMPLETE",
    ),
    _number(
        "persistence.validation-timeout-seconds",
        120,
        "How long a member with damaged data waits for `forceStart` or `partialStart`.",
    ),
    _number(
        "cp-subsystem.cp-member-count",
        0,
        "0: CP calls answer 409. From 3 on (1 and 2 are errors) they show what there is, also on "
        "fewer members.",
    ),
    _number("limits.name-bytes", 255, "Longer names: 414.", 1, 4096),
    _number("limits.key-bytes", 8 << 10, "Longer keys: 414.", 1, 64 << 10),
    _number("limits.value-bytes", 8 << 20, "Larger bodies: 413.", 1, 1 << 30),
    _number("limits.header-bytes", 64 << 10, "Larger header blocks: 431.", 1 << 10, 1 << 20),
    _text(
        "shutdown.parked-file",
        None,
        "Written by `memberShutdown` and `clusterShutdown` before they answer; a member that finds "
        "it stays parked. In a directory that is there, outside of `base-dir`.",
    ),
    _flag(
        "metrics.enabled",
        False,
        "A listener for `GET /metrics` alone, answered in the text format of Prometheus: plain "
        "HTTP, no credentials.",
    ),
    *_port("metrics.port", 5703, False, "Metrics port"),
    *_interfaces("metrics.interfaces"),
    _choice("logging.format", "text", "JSON is one object a line.", "text", "json"),
    _choice(
        "logging.level",
        "info",
        "From which level on the log is written.",
        *("debug", "info", "warning", "error"),
    ),
)
