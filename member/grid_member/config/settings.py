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


def _flag(path: str, default: bool | None, about: str) -> Setting:
    return Setting(path, Kind.BOOLEAN, default, about)


def _number(path: str, default: int, about: str, low: int = 0, high: int = MAX_COUNT) -> Setting:
    return Setting(path, Kind.INTEGER, default, about, low, high)


def _text(path: str, default: str | None, about: str) -> Setting:
    return Setting(path, Kind.STRING, default, about)


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
    _text("cluster-name", "dev", "First part of every management body; no `&`."),
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
    _flag(
        "advanced-network.enabled",
        False,
        "On: the listeners are configured here, and `network` must not be there. Off: the rest of "
        "this section is checked and has no effect.",
    ),
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
    *_port(f"{_MANAGEMENT_ENDPOINT}.port", 5702, False, "Management port"),
    *_interfaces(f"{_MANAGEMENT_ENDPOINT}.interfaces"),
    _flag(f"{_MANAGEMENT_ENDPOINT}.endpoint-groups.*.enabled", True, _ADVANCED_GROUP_NAMES),
    _text(f"{_MANAGEMENT_ENDPOINT}.realm", None, _REALM),
    _flag("security.enabled", False, "`true` is not supported yet."),
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
    _number("limits.name-bytes", 255, "Longer names: 414.", 1, 4096),
    _number("limits.key-bytes", 8 << 10, "Longer keys: 414.", 1, 64 << 10),
    _number("limits.value-bytes", 8 << 20, "Larger bodies: 413.", 1, 1 << 30),
    _number("limits.header-bytes", 64 << 10, "Larger header blocks: 431.", 1 << 10, 1 << 20),
    _choice("logging.format", "text", "JSON is one object a line.", "text", "json"),
    _choice(
        "logging.level",
        "info",
        "From which level on the log is written.",
        *("debug", "info", "warning", "error"),
    ),
)
