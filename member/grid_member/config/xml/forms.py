"""How the tree of settings looks in XML where that is more than an element for every name.

The reader, the writer and the XML schema go by this one table. Beside it, everything that may be
written as an attribute may be written as a child element of the same name, and the other way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.config.settings.wan import BATCH_PUBLISHER
from grid_member.config.tree import TOP

if TYPE_CHECKING:
    from grid_member.config.settings.shape import Shape

NAMESPACE: Final = "urn:grid:config:1"
SCHEMA_INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
"""Its attributes say where a schema is; they are allowed on the top element."""
TOP_ELEMENT: Final = f'<{TOP} xmlns="{NAMESPACE}">'
NAME: Final = "name"
"""The attribute that holds the name of an element that has one."""
WHITE_SPACE: Final = " \t\r\n"
"""What XML calls white space: it is dropped at the ends of an element's text."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A list, or a section with free names: one element of the same kind for each.

    They stand right in the section that has the collection, or in a wrapper called as the
    collection. Both are read; `wrapped` says which is written.
    """

    path: str
    element: str
    wrapped: bool = False
    name: str = NAME
    """The attribute, or the child element, that holds an item's name; one that is not `name` is
    written as a child element."""
    default_name: str = ""
    """The child whose value is the name of an item without one; empty: a name is required."""


_USERS: Final = "security.realms.[].authentication.simple.users"
_REST: Final = "advanced-network.rest-server-socket-endpoint-config"
_MEMBERS: Final = "advanced-network.member-server-socket-endpoint-config"
_WAN: Final = "advanced-network.wan-server-socket-endpoint-config"
_MANAGEMENT: Final = "advanced-network.management-server-socket-endpoint-config"

COLLECTIONS: Final = (
    Collection("map", "map"),
    Collection("queue", "queue"),
    Collection("network.interfaces.interfaces", "interface"),
    Collection("network.join.tcp-ip.member-list", "member"),
    Collection("advanced-network.join.tcp-ip.member-list", "member"),
    Collection(f"{_MEMBERS}.interfaces.interfaces", "interface"),
    Collection("network.rest-api.endpoint-groups", "endpoint-group"),
    Collection("network.management.endpoint-groups", "endpoint-group"),
    Collection(f"{_REST}.interfaces.interfaces", "interface"),
    Collection(f"{_REST}.endpoint-groups", "endpoint-group", wrapped=True),
    Collection(f"{_MANAGEMENT}.interfaces.interfaces", "interface"),
    Collection(f"{_MANAGEMENT}.endpoint-groups", "endpoint-group", wrapped=True),
    Collection(f"{_WAN}.interfaces.interfaces", "interface"),
    Collection("metrics.interfaces.interfaces", "interface"),
    Collection("wan-replication", "wan-replication"),
    Collection(
        BATCH_PUBLISHER, "batch-publisher", name="publisher-id", default_name="cluster-name"
    ),
    Collection("map.*.wan-replication-ref", "wan-replication-ref"),
    Collection("map.*.wan-replication-ref.*.key-filter.include", "include"),
    Collection("map.*.wan-replication-ref.*.key-filter.exclude", "exclude"),
    Collection("wan.accepted-clusters", "cluster-name", wrapped=True),
    Collection("security.realms", "realm", wrapped=True),
    Collection("security.rest.protected", "endpoint", wrapped=True),
    Collection(_USERS, "user"),
    Collection(f"{_USERS}.[].roles", "role"),
)

TEXTS: Final = {
    "network.port": "port",
    "network.cluster.port": "port",
    f"{_MEMBERS}.port": "port",
    "network.management.port": "port",
    f"{_REST}.port": "port",
    f"{_MANAGEMENT}.port": "port",
    "network.wan.port": "port",
    f"{_WAN}.port": "port",
    "metrics.port": "port",
}
"""Sections whose element may have text, and the setting that it is."""

_ATTRIBUTES: Final = frozenset(
    (
        *(f"{section}.{name}" for section in TEXTS for name in ("auto-increment", "port-count")),
        *(
            f"map.*.eviction.{name}"
            for name in ("eviction-policy", "max-size-policy", "size", "comparator-class-name")
        ),
        "security.realms.[].name",
        f"{_USERS}.[].username",
        f"{_USERS}.[].password",
        "security.realms.[].identity.username-password.username",
        "security.realms.[].identity.username-password.password",
        "security.member-authentication.realm",
    )
)


def is_attribute(shape: Shape) -> bool:
    """Tell whether a setting is usually written as an attribute."""
    return shape.path in _ATTRIBUTES or shape.path.rpartition(".")[2] == "enabled"


def collection(shape: Shape) -> Collection | None:
    """Return the form of a list or of a section with free names, None for everything else."""
    return _BY_PATH.get(shape.path)


_BY_PATH: Final = {form.path: form for form in COLLECTIONS}
