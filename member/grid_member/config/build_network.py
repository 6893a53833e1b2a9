"""The listeners of a member, from `network` or from `advanced-network`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from grid_member.config.addresses import (
    ADDRESS_FORMS,
    MAX_ADDRESSES,
    is_address,
    is_ip,
    is_pattern,
    member_problem,
)
from grid_member.config.build_security import members_tls, tls_config
from grid_member.config.model.member import (
    ALL_GROUPS,
    DEFAULT_GROUPS,
    FORMER_GROUPS,
    EndpointGroup,
    ListenerConfig,
)
from grid_member.config.model.security import ClientCertificates
from grid_member.config.settings.shape import Path, path_text

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from grid_member.config.build_security import Realms
    from grid_member.config.model.security import TlsConfig
    from grid_member.config.values import Values

_ANY_ADDRESS: Final = "*"
_NETWORK: Final[Path] = ("network",)
_REST: Final[Path] = ("network", "rest-api")
_MANAGEMENT: Final[Path] = ("network", "management")
_ADVANCED: Final[Path] = ("advanced-network",)
_REST_ENDPOINT: Final[Path] = (*_ADVANCED, "rest-server-socket-endpoint-config")
_MANAGEMENT_ENDPOINT: Final[Path] = (*_ADVANCED, "management-server-socket-endpoint-config")
_CLUSTER: Final[Path] = (*_NETWORK, "cluster")
_MEMBERS_ENDPOINT: Final[Path] = (*_ADVANCED, "member-server-socket-endpoint-config")
_WAN: Final[Path] = (*_NETWORK, "wan")
_WAN_ENDPOINT: Final[Path] = (*_ADVANCED, "wan-server-socket-endpoint-config")
_JOINING: Final[Path] = ("join", "tcp-ip", "enabled")
_MEMBER_LIST: Final[Path] = ("join", "tcp-ip", "member-list")
_MEMBERS: Final[Path] = ("join", "tcp-ip", "members")
_SEPARATOR: Final = ","
_METRICS: Final[Path] = ("metrics",)
_SSL: Final = {
    _REST: (*_NETWORK, "ssl"),
    _MANAGEMENT: (*_MANAGEMENT, "ssl"),
    _REST_ENDPOINT: (*_REST_ENDPOINT, "ssl"),
    _MANAGEMENT_ENDPOINT: (*_MANAGEMENT_ENDPOINT, "ssl"),
}
"""Where a listener's TLS is configured."""


@dataclass(frozen=True, slots=True)
class MembersListenerSettings:
    """Where a member listens for the others, when there are any, and where that was said."""

    port: int
    port_path: Path
    interfaces: tuple[str, ...]
    interfaces_path: Path
    tls: TlsConfig | None
    entries: tuple[tuple[Path, str], ...]
    """The addresses of the TCP/IP join, and where each was written."""


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The listeners that are on, the address that the member shows, and the TCP/IP join."""

    rest: ListenerConfig | None = None
    management: ListenerConfig | None = None
    public_address: str | None = None
    join_members: tuple[str, ...] | None = None
    members: MembersListenerSettings | None = None
    metrics: ListenerConfig | None = None
    wan: ListenerConfig | None = None
    wan_section: Path = _WAN
    """Where the WAN listener and its `ssl` are configured, whether it is on or off."""


def listener_settings(values: Values, realms: Realms, directory: FilePath) -> ListenerSettings:
    """Return what the member listens on and whom it joins. Notes problems in found.

    Relative files are taken from directory; realms has the management listener's users.
    """
    network = _Network(values, realms, directory)
    if not values.flag((*_ADVANCED, "enabled")):
        network.read_advanced(on=False)
        return network.add_metrics(network.read_plain())
    if values.is_written(_NETWORK):
        message = "contradicts advanced-network, which is enabled: leave one of the two out"
        values.complain(_NETWORK, message)
    return network.add_metrics(network.read_advanced(on=True))


class _Network:
    def __init__(self, values: Values, realms: Realms, directory: FilePath) -> None:
        self._values = values
        self._realms = realms
        self._directory = directory

    def read_plain(self) -> ListenerSettings:
        """Read `network`; what is off is checked and left out."""
        values = self._values
        interfaces = self._interfaces((*_NETWORK, "interfaces"))
        rest = self._listener((*_NETWORK, "port"), _REST, interfaces)
        management = self._listener((*_MANAGEMENT, "port"), _MANAGEMENT, interfaces)
        wan = self._wan_listener(_WAN, interfaces)
        listeners = ListenerSettings(
            rest if values.flag((*_REST, "enabled")) else None,
            self._guard(management, _MANAGEMENT, values.flag((*_MANAGEMENT, "enabled"))),
            self._public_address(_NETWORK),
            self._join_members(_NETWORK),
            self._members(_NETWORK, _CLUSTER, (*_NETWORK, "interfaces"), interfaces),
            wan=self._guard_wan(wan, _WAN) if values.flag((*_WAN, "enabled")) else None,
        )
        self._check_port(listeners.management, listeners.rest)
        self._check_port(listeners.wan, listeners.rest, listeners.management)
        return listeners

    def read_advanced(self, on: bool) -> ListenerSettings:
        """Read `advanced-network`: an endpoint is on when it is there; off only checks."""
        values = self._values
        rest, management = (
            self._listener(
                (*endpoint, "port"), endpoint, self._interfaces((*endpoint, "interfaces"))
            )
            for endpoint in (_REST_ENDPOINT, _MANAGEMENT_ENDPOINT)
        )
        wan = self._wan_listener(_WAN_ENDPOINT, self._interfaces((*_WAN_ENDPOINT, "interfaces")))
        join_members = self._join_members(_ADVANCED)
        interfaces: Path = (*_MEMBERS_ENDPOINT, "interfaces")
        members = self._members(
            _ADVANCED, _MEMBERS_ENDPOINT, interfaces, self._interfaces(interfaces)
        )
        public_address = self._public_address(_REST_ENDPOINT)
        if not on:
            return ListenerSettings()
        listeners = ListenerSettings(
            rest if values.is_written(_REST_ENDPOINT) else None,
            self._guard(management, _MANAGEMENT_ENDPOINT, values.is_written(_MANAGEMENT_ENDPOINT)),
            public_address,
            join_members,
            members,
            wan=self._guard_wan(wan, _WAN_ENDPOINT) if values.is_written(_WAN_ENDPOINT) else None,
            wan_section=_WAN_ENDPOINT,
        )
        self._check_port(listeners.management, listeners.rest)
        self._check_port(listeners.wan, listeners.rest, listeners.management)
        return listeners

    def add_metrics(self, listeners: ListenerSettings) -> ListenerSettings:
        """Add the listener of `metrics`; off, it is checked and left out."""
        values = self._values
        port: Path = (*_METRICS, "port")
        found = self._listener(port, _METRICS, self._interfaces((*_METRICS, "interfaces")))
        metrics = replace(found, groups=frozenset(), metrics=True)
        if not values.flag((*_METRICS, "enabled")):
            return listeners
        self._check_port(metrics, listeners.rest, listeners.management, listeners.wan)
        return replace(listeners, metrics=metrics)

    def _listener(self, port: Path, section: Path, interfaces: tuple[str, ...]) -> ListenerConfig:
        values = self._values
        of_rest = section in (_REST, _REST_ENDPOINT)
        return ListenerConfig(
            port=values.number((*port, "port")),
            auto_increment=values.flag((*port, "auto-increment")),
            port_count=values.number((*port, "port-count")),
            groups=self._groups(section, DEFAULT_GROUPS if of_rest else ALL_GROUPS),
            setting=path_text(section),
            interfaces=interfaces,
            port_setting=path_text(port),
            tls=tls_config(values, _SSL[section], self._directory) if section in _SSL else None,
        )

    def _guard(self, listener: ListenerConfig, section: Path, on: bool) -> ListenerConfig | None:
        """Return the management listener with the users of its realm, None when it is off."""
        if not on:
            return None
        realm = self._values.text((*section, "realm"))
        if realm is None:
            self._values.complain(section, "needs a realm: the name of one of security.realms")
            return replace(listener, users=())
        users = self._realms.find(realm, (*section, "realm")).callers
        return replace(listener, users=users, realm=realm)

    def _wan_listener(self, section: Path, interfaces: tuple[str, ...]) -> ListenerConfig:
        values, port, ssl = self._values, (*section, "port"), (*section, "ssl")
        authorities = values.text((*ssl, "ca-file"))
        return ListenerConfig(
            port=values.number((*port, "port")),
            auto_increment=values.flag((*port, "auto-increment")),
            port_count=values.number((*port, "port-count")),
            groups=frozenset(),
            setting=path_text(section),
            users=(),
            interfaces=interfaces,
            port_setting=path_text(port),
            tls=tls_config(values, ssl, self._directory, authorities),
            wan=True,
        )

    def _guard_wan(self, listener: ListenerConfig, section: Path) -> ListenerConfig:
        """Add the users of the listener's realm; without a realm, client certificates are."""
        realm = self._values.text((*section, "realm"))
        if realm is not None:
            users = self._realms.find(realm, (*section, "realm")).callers
            return replace(listener, users=users, realm=realm)
        tls = listener.tls
        if tls is None or tls.client_certificates is not ClientCertificates.REQUIRED:
            message = (
                "needs a realm, the name of one of security.realms, or an ssl that is enabled with "
                "client-certificates: required"
            )
            self._values.complain(section, message)
        return listener

    def _check_port(self, one: ListenerConfig | None, *others: ListenerConfig | None) -> None:
        for other in filter(None, others):
            if one is not None and one.port == other.port != 0:
                path: Path = tuple(one.port_setting.split("."))
                self._values.complain(path, f"must differ from the port of {other.port_setting}")

    def _interfaces(self, section: Path) -> tuple[str, ...]:
        base: Path = (*section, "interfaces")
        paths = [(*base, index) for index in self._values.children(base)]
        values = self._values.values
        listed = [(path, str(values[path])) for path in paths if path in values]
        enabled = self._values.flag((*section, "enabled"))
        for path, address in listed:
            if address == _ANY_ADDRESS or is_ip(address) or (is_pattern(address) and not enabled):
                continue
            self._values.complain(path, "must be an IP address or * for any")
        if not enabled:
            return (_ANY_ADDRESS,)
        if not self._values.is_written((*base, 0)):
            self._values.complain(section, "is enabled and lists no interface")
        return tuple(address for _, address in listed)

    def _public_address(self, section: Path) -> str | None:
        path: Path = (*section, "public-address")
        address = self._values.text(path)
        if address is not None and not is_address(address):
            self._values.complain(path, f"must be an address: {ADDRESS_FORMS}")
        return address

    def _members(
        self, network: Path, section: Path, interfaces_path: Path, interfaces: tuple[str, ...]
    ) -> MembersListenerSettings:
        port: Path = (*section, "port")
        return MembersListenerSettings(
            port=self._values.number((*port, "port")),
            port_path=port,
            interfaces=interfaces,
            interfaces_path=interfaces_path,
            tls=members_tls(self._values, (*section, "ssl"), self._directory),
            entries=self._member_list(network),
        )

    def _join_members(self, network: Path) -> tuple[str, ...] | None:
        """Return the addresses of the TCP/IP join; notes what is wrong with them."""
        listed, joins = self._member_list(network), self._values.flag((*network, *_JOINING))
        for path, address in listed:
            problem = member_problem(address) if address else "lacks an address beside a comma"
            if problem is not None and (joins or not is_pattern(address)):
                self._values.complain(path, problem)
        if len(listed) > MAX_ADDRESSES:
            message = f"must have at most {MAX_ADDRESSES} addresses"
            self._values.complain((*network, *_MEMBER_LIST), message)
        addresses = tuple(address for _, address in listed)
        return addresses if joins else None

    def _member_list(self, network: Path) -> tuple[tuple[Path, str], ...]:
        values, base = self._values, (*network, *_MEMBER_LIST)
        paths = [(*base, index) for index in values.children(base)] + [(*network, *_MEMBERS)]
        return tuple(
            (path, part.strip())
            for path in paths
            if values.find(path)
            for part in str(values.find(path)).split(_SEPARATOR)
        )

    def _groups(self, section: Path, default: frozenset[EndpointGroup]) -> frozenset[EndpointGroup]:
        path: Path = (*section, "endpoint-groups")
        switched: dict[EndpointGroup, str] = {}
        groups = set(default)
        for name in map(str, self._values.children(path)):
            group = _group(name, exact=section[:1] == _ADVANCED)
            enabled = self._values.find((*path, name, "enabled"))
            if group is None:
                known = ", ".join(g.value for g in EndpointGroup)
                self._values.complain((*path, name), f"unknown endpoint group; known are {known}")
            elif group in switched:
                message = f"is the same endpoint group as {switched[group]}"
                self._values.complain((*path, name), message)
            elif enabled is not None:
                (groups.add if enabled else groups.discard)(group)
            if group is not None:
                switched.setdefault(group, name)
        return frozenset(groups)


def _group(name: str, exact: bool) -> EndpointGroup | None:
    groups = {group.value: group for group in EndpointGroup} | FORMER_GROUPS
    if exact:
        return groups.get(name)
    plain = name.replace("_", "").upper()
    return next((g for known, g in groups.items() if known.replace("_", "") == plain), None)
