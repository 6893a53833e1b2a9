"""The settings of listeners and of the members' network: `network` and `advanced-network`."""

from __future__ import annotations

from typing import Final

from grid_member.config.settings.setting import MAX_PORT, Setting, choice, flag, number, text


def port(section: str, default: int, auto_increment: bool, title: str) -> tuple[Setting, ...]:
    """Return the settings of a listener's port."""
    return (
        number(f"{section}.port", default, f"{title}; 0 takes any free one.", 0, MAX_PORT),
        flag(f"{section}.auto-increment", auto_increment, "Try the next port when one is taken."),
        number(f"{section}.port-count", 100, "How many ports are tried.", 1, MAX_PORT),
    )


def interfaces(section: str) -> tuple[Setting, ...]:
    """Return the settings of the addresses that a listener listens on."""
    return (
        flag(f"{section}.enabled", False, "Off: every address is listened on."),
        text(f"{section}.interfaces.[]", None, "IP address to listen on; `*` is any."),
    )


def _join(section: str) -> tuple[Setting, ...]:
    return (
        flag(
            f"{section}.tcp-ip.enabled",
            False,
            "On, with two members or more in the list: this member is one of their cluster. "
            "Otherwise it runs alone.",
        ),
        text(
            f"{section}.tcp-ip.member-list.[]",
            None,
            "Address of a member, this one included: host, host:port, [IPv6] or [IPv6]:port, "
            "where the port is its members' port. Default: as this member's own. Or all of them "
            "have ports, and these are REST ports; the members' ports are 100 above.",
        ),
        text(
            f"{section}.tcp-ip.members",
            None,
            "More of the same addresses in one text, with commas between them.",
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


def _wan_ssl(section: str) -> tuple[Setting, ...]:
    return (
        *_ssl(section),
        text(
            f"{section}.ca-file",
            None,
            "PEM, the authorities that the certificates of targets are from, and of clients where "
            "there is no client-ca-file.",
        ),
    )


def _members_port(section: str) -> Setting:
    # No auto-increment: the others go by their lists.
    return number(
        f"{section}.port",
        _MEMBERS_PORT,
        "Members' port: where the members of a cluster listen for each other.",
        1,
        MAX_PORT,
    )


def _members_ssl(section: str) -> tuple[Setting, ...]:
    return (
        flag(
            f"{section}.enabled",
            False,
            "On: members speak TLS with each other, and each checks the other's certificate.",
        ),
        text(
            f"{section}.certificate-file",
            None,
            "Required with it: PEM, for servers and for clients, and with the host that this "
            "member is listed as; after it the intermediate ones.",
        ),
        text(
            f"{section}.key-file",
            None,
            "Required with it: PEM, the certificate's private key, not encrypted.",
        ),
        text(
            f"{section}.ca-file",
            None,
            "Required with it: PEM, the authorities that the members' certificates are from.",
        ),
    )


_MEMBERS_PORT: Final = 5704
_WAN_PORT: Final = 5705
_REST_GROUPS: Final = "Default: CLUSTER_READ and HEALTH_CHECK on, the others off."
_NETWORK_GROUP_NAMES: Final = "Group names in any case, underscores optional."
_ADVANCED_GROUP_NAMES: Final = "Group names exactly as listed."
_REST_ENDPOINT: Final = "advanced-network.rest-server-socket-endpoint-config"
_MEMBERS_ENDPOINT: Final = "advanced-network.member-server-socket-endpoint-config"
_MANAGEMENT_ENDPOINT: Final = "advanced-network.management-server-socket-endpoint-config"
_WAN_ENDPOINT: Final = "advanced-network.wan-server-socket-endpoint-config"
_WAN_REALM: Final = (
    "The name of a realm in `security.realms`, whose users the clusters that send show. Required "
    "unless client certificates are."
)
_REALM: Final = "Required with it: the name of a realm in `security.realms`."

NETWORK: Final[tuple[Setting, ...]] = (
    *port("network.port", 5701, True, "REST port"),
    text(
        "network.public-address",
        None,
        "Host, or host and port, shown in the cluster document. Default: the address listened on.",
    ),
    *interfaces("network.interfaces"),
    *_join("network.join"),
    *_ssl("network.ssl"),
    _members_port("network.cluster.port"),
    *_members_ssl("network.cluster.ssl"),
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
    *port("network.management.port", 5702, False, "Management port"),
    flag("network.management.endpoint-groups.*.enabled", True, _NETWORK_GROUP_NAMES),
    text("network.management.realm", None, _REALM),
    *_ssl("network.management.ssl"),
    flag(
        "network.wan.enabled",
        False,
        "A listener for the changes of other clusters alone; it always asks for HTTP Basic "
        "authentication or a client certificate.",
    ),
    *port("network.wan.port", _WAN_PORT, False, "WAN port"),
    text("network.wan.realm", None, _WAN_REALM),
    *_wan_ssl("network.wan.ssl"),
    flag(
        "advanced-network.enabled",
        False,
        "On: the listeners are configured here, and `network` must not be there. Off: the rest of "
        "this section is checked and has no effect.",
    ),
    *_join("advanced-network.join"),
    _members_port(f"{_MEMBERS_ENDPOINT}.port"),
    *interfaces(f"{_MEMBERS_ENDPOINT}.interfaces"),
    *_members_ssl(f"{_MEMBERS_ENDPOINT}.ssl"),
    *port(f"{_REST_ENDPOINT}.port", 5701, True, "REST port"),
    text(
        f"{_REST_ENDPOINT}.public-address",
        None,
        "Host, or host and port, shown in the cluster document. Default: the address listened on.",
    ),
    *interfaces(f"{_REST_ENDPOINT}.interfaces"),
    flag(
        f"{_REST_ENDPOINT}.endpoint-groups.*.enabled",
        None,
        f"{_REST_GROUPS} {_ADVANCED_GROUP_NAMES}",
    ),
    *_ssl(f"{_REST_ENDPOINT}.ssl"),
    *port(f"{_MANAGEMENT_ENDPOINT}.port", 5702, False, "Management port"),
    *interfaces(f"{_MANAGEMENT_ENDPOINT}.interfaces"),
    flag(f"{_MANAGEMENT_ENDPOINT}.endpoint-groups.*.enabled", True, _ADVANCED_GROUP_NAMES),
    text(f"{_MANAGEMENT_ENDPOINT}.realm", None, _REALM),
    *_ssl(f"{_MANAGEMENT_ENDPOINT}.ssl"),
    *port(f"{_WAN_ENDPOINT}.port", _WAN_PORT, False, "WAN port"),
    *interfaces(f"{_WAN_ENDPOINT}.interfaces"),
    text(f"{_WAN_ENDPOINT}.realm", None, _WAN_REALM),
    *_wan_ssl(f"{_WAN_ENDPOINT}.ssl"),
)
