"""The listeners of a member, from `network` or from `advanced-network`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from grid_member.config.model import (
    ALL_GROUPS,
    DEFAULT_GROUPS,
    EndpointGroup,
    ListenerConfig,
    User,
)
from grid_member.config.shape import Path, path_text

if TYPE_CHECKING:
    from grid_member.config.values import Values

_ANY_ADDRESS: Final = "*"
_NETWORK: Final[Path] = ("network",)
_REST: Final[Path] = ("network", "rest-api")
_MANAGEMENT: Final[Path] = ("network", "management")
_ADVANCED: Final[Path] = ("advanced-network",)
_REST_ENDPOINT: Final[Path] = (*_ADVANCED, "rest-server-socket-endpoint-config")
_MANAGEMENT_ENDPOINT: Final[Path] = (*_ADVANCED, "management-server-socket-endpoint-config")
_REALMS: Final[Path] = ("security", "realms")


@dataclass(frozen=True, slots=True)
class Listening:
    """The listeners that are on, and the address that the member shows."""

    rest: ListenerConfig | None = None
    management: ListenerConfig | None = None
    public_address: str | None = None


def listening(found: Values) -> Listening:
    """Return what the member listens on. Notes problems in found."""
    network = _Network(found)
    if not found.flag((*_ADVANCED, "enabled")):
        network.advanced(on=False)
        return network.plain()
    if found.written(_NETWORK):
        message = "contradicts advanced-network, which is enabled: leave one of the two out"
        found.complain(_NETWORK, message)
    return network.advanced(on=True)


class _Network:
    def __init__(self, found: Values) -> None:
        self._found = found

    def plain(self) -> Listening:
        """Read `network`; what is off is checked and left out."""
        found = self._found
        interfaces = self._interfaces((*_NETWORK, "interfaces"))
        rest = self._listener((*_NETWORK, "port"), _REST, interfaces)
        management = self._listener((*_MANAGEMENT, "port"), _MANAGEMENT, interfaces)
        listeners = Listening(
            rest if found.flag((*_REST, "enabled")) else None,
            self._guarded(management, _MANAGEMENT)
            if found.flag((*_MANAGEMENT, "enabled"))
            else None,
            found.text((*_NETWORK, "public-address")),
        )
        self._check_ports(listeners, (*_MANAGEMENT, "port"), "network.port")
        return listeners

    def advanced(self, on: bool) -> Listening:
        """Read `advanced-network`: an endpoint is on when it is there; off only checks."""
        found = self._found
        rest, management = (
            self._listener(
                (*endpoint, "port"), endpoint, self._interfaces((*endpoint, "interfaces"))
            )
            for endpoint in (_REST_ENDPOINT, _MANAGEMENT_ENDPOINT)
        )
        if not on:
            return Listening()
        listeners = Listening(
            rest if found.written(_REST_ENDPOINT) else None,
            self._guarded(management, _MANAGEMENT_ENDPOINT)
            if found.written(_MANAGEMENT_ENDPOINT)
            else None,
            found.text((*_REST_ENDPOINT, "public-address")),
        )
        self._check_ports(
            listeners, (*_MANAGEMENT_ENDPOINT, "port"), path_text((*_REST_ENDPOINT, "port"))
        )
        return listeners

    def _listener(self, port: Path, section: Path, interfaces: tuple[str, ...]) -> ListenerConfig:
        found = self._found
        of_rest = section in (_REST, _REST_ENDPOINT)
        return ListenerConfig(
            port=found.number((*port, "port")),
            auto_increment=found.flag((*port, "auto-increment")),
            port_count=found.number((*port, "port-count")),
            groups=self._groups(section, DEFAULT_GROUPS if of_rest else ALL_GROUPS),
            setting=path_text(section),
            interfaces=interfaces,
            port_setting=path_text(port),
        )

    def _guarded(self, listener: ListenerConfig, section: Path) -> ListenerConfig:
        """Return the management listener with the users of its realm."""
        realm = self._found.text((*section, "realm"))
        if realm is None:
            self._found.complain(section, "needs a realm: the name of one of security.realms")
            return replace(listener, users=())
        return replace(listener, users=self._realm_users(realm, (*section, "realm")), realm=realm)

    def _check_ports(self, listeners: Listening, path: Path, other: str) -> None:
        rest, management = listeners.rest, listeners.management
        if rest and management and rest.port == management.port != 0:
            self._found.complain(path, f"must differ from the port of {other}")

    def _interfaces(self, section: Path) -> tuple[str, ...]:
        base: Path = (*section, "interfaces")
        listed = [
            (path, str(self._found.values[path]))
            for path in ((*base, index) for index in self._found.children(base))
            if path in self._found.values
        ]
        for path, address in listed:
            if address != _ANY_ADDRESS and not _is_address(address):
                self._found.complain(path, "must be an IP address or * for any")
        if not self._found.flag((*section, "enabled")):
            return (_ANY_ADDRESS,)
        if not self._found.written((*base, 0)):
            self._found.complain(section, "is enabled and lists no interface")
        return tuple(address for _, address in listed)

    def _groups(self, section: Path, default: frozenset[EndpointGroup]) -> frozenset[EndpointGroup]:
        path: Path = (*section, "endpoint-groups")
        switched: dict[EndpointGroup, str] = {}
        groups = set(default)
        for name in map(str, self._found.children(path)):
            group = _group(name, exact=section[:1] == _ADVANCED)
            enabled = self._found.said((*path, name, "enabled"))
            if group is None:
                known = ", ".join(g.value for g in EndpointGroup)
                self._found.complain((*path, name), f"unknown endpoint group; known are {known}")
            elif group in switched:
                message = f"is the same endpoint group as {switched[group]}"
                self._found.complain((*path, name), message)
            elif enabled is not None:
                (groups.add if enabled else groups.discard)(group)
            if group is not None:
                switched.setdefault(group, name)
        return frozenset(groups)

    def _realm_users(self, realm: str, path: Path) -> tuple[User, ...]:
        for index in list(self._found.children(_REALMS)):
            if self._found.said((*_REALMS, index, "name")) == realm:
                return self._users((*_REALMS, index, "authentication", "simple", "users"))
        self._found.complain(path, "no realm of this name in security.realms")
        return ()

    def _users(self, base: Path) -> tuple[User, ...]:
        users = []
        for index in list(self._found.children(base)):
            name = self._found.said((*base, index, "username"))
            password = self._found.said((*base, index, "password"))
            if name is None or password is None:
                self._found.complain((*base, index), "needs a username and a password")
            elif ":" in str(name):
                self._found.complain((*base, index, "username"), "must not contain a colon")
            else:
                users.append(User(str(name), str(password)))
        if not users:
            self._found.complain(base, "the realm has no user who could authenticate")
        return tuple(users)


def _group(name: str, exact: bool) -> EndpointGroup | None:
    plain = name if exact else name.replace("_", "").upper()
    return next(
        (g for g in EndpointGroup if (g.value if exact else g.value.replace("_", "")) == plain),
        None,
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
