"""From what a document says to the typed model, with the checks that span several elements."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from grid_member.config.model import (
    ALL_GROUPS,
    DEFAULT_GROUPS,
    EndpointGroup,
    Limits,
    ListenerConfig,
    LoggingConfig,
    MapConfig,
    MemberConfig,
    QueueConfig,
    User,
)
from grid_member.config.names import WILDCARD, ambiguous
from grid_member.config.settings import MAX_BACKUPS_MEMBERS, MAX_COUNT, SETTINGS, Value

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from grid_member.config.validate import Path, Values

_DEFAULTS: Final = {setting.path: setting.default for setting in SETTINGS}
_REST: Final[Path] = ("network", "rest-api")
_MANAGEMENT: Final[Path] = ("network", "management")


def member_config(found: Values, directory: FilePath) -> MemberConfig:
    """Return the model; a relative base-dir is taken from directory. Notes problems in found."""
    return _Builder(found).build(directory)


class _Builder:
    def __init__(self, found: Values) -> None:
        self._found = found

    def build(self, directory: FilePath) -> MemberConfig:
        if self._flag("security", "enabled"):
            self._found.complain(("security", "enabled"), "is not supported yet")
        persistence = self._flag("persistence", "enabled")
        rest, management = self._listeners()
        base = self._text("persistence", "base-dir") or ""
        config = MemberConfig(
            cluster_name=self._text("cluster-name") or "",
            instance_name=self._text("instance-name"),
            public_address=self._text("network", "public-address"),
            interfaces=self._interfaces(),
            rest=rest,
            management=management,
            maps=self._maps(persistence),
            queues=self._queues(persistence),
            data_directory=directory / base if persistence else None,
            limits=Limits(
                self._number("limits", "name-bytes"),
                self._number("limits", "key-bytes"),
                self._number("limits", "value-bytes"),
                self._number("limits", "header-bytes"),
            ),
            logging=LoggingConfig(
                self._text("logging", "format") or "", self._text("logging", "level") or ""
            ),
        )
        if "&" in config.cluster_name:
            # The name is the first part of every management body, and `&` ends a part.
            self._found.complain(("cluster-name",), "must not contain &")
        return config

    def _value(self, path: Path, *pattern: str) -> Value | None:
        value = self._found.values.get(path)
        return _DEFAULTS[".".join(pattern)] if value is None else value

    def _flag(self, *path: str) -> bool:
        return bool(self._value(path, *path))

    def _number(self, *path: str) -> int:
        return int(self._value(path, *path) or 0)

    def _text(self, *path: str) -> str | None:
        value = self._value(path, *path)
        return None if value is None else str(value)

    def _interfaces(self) -> tuple[str, ...]:
        if not self._flag("network", "interfaces", "enabled"):
            return (WILDCARD,)
        base: Path = ("network", "interfaces", "interfaces")
        listed = [
            (path, str(self._found.values[path]))
            for path in ((*base, index) for index in self._found.children(base))
            if path in self._found.values
        ]
        for path, address in listed:
            if address != WILDCARD and not _is_address(address):
                self._found.complain(path, "must be an IP address or * for any")
        if not listed:
            self._found.complain(base[:2], "is enabled and lists no interface")
        return tuple(address for _, address in listed)

    def _listeners(self) -> tuple[ListenerConfig | None, ListenerConfig | None]:
        rest = management = None
        if self._flag(*_text_path(_REST), "enabled"):
            rest = ListenerConfig(
                port=self._number("network", "port", "port"),
                auto_increment=self._flag("network", "port", "auto-increment"),
                port_count=self._number("network", "port", "port-count"),
                groups=self._groups(_REST, DEFAULT_GROUPS),
            )
        else:
            self._groups(_REST, DEFAULT_GROUPS)
        if self._flag(*_text_path(_MANAGEMENT), "enabled"):
            management = self._management()
        if rest and management and rest.port == management.port != 0:
            self._found.complain(
                (*_MANAGEMENT, "port"), "must differ from the port of network.port"
            )
        return rest, management

    def _management(self) -> ListenerConfig:
        realm = self._text("network", "management", "realm")
        return ListenerConfig(
            port=self._number("network", "management", "port", "port"),
            auto_increment=self._flag("network", "management", "port", "auto-increment"),
            port_count=self._number("network", "management", "port", "port-count"),
            groups=self._groups(_MANAGEMENT, ALL_GROUPS),
            setting="network.management",
            users=self._realm_users(realm),
            realm=realm or "",
        )

    def _groups(self, base: Path, default: frozenset[EndpointGroup]) -> frozenset[EndpointGroup]:
        groups = set(default)
        path: Path = (*base, "endpoint-groups")
        for name in list(self._found.children(path)):
            group = _group(str(name))
            enabled = self._found.values.get((*path, name, "enabled"))
            if group is None:
                known = ", ".join(g.value for g in EndpointGroup)
                self._found.complain((*path, name), f"unknown endpoint group; known are {known}")
            elif enabled is True:
                groups.add(group)
            elif enabled is False:
                groups.discard(group)
        return frozenset(groups)

    def _realm_users(self, realm: str | None) -> tuple[User, ...]:
        path: Path = (*_MANAGEMENT, "realm")
        if realm is None:
            self._found.complain(_MANAGEMENT, "needs a realm: the name of one of security.realms")
            return ()
        base: Path = ("security", "realms")
        for index in list(self._found.children(base)):
            if self._found.values.get((*base, index, "name")) == realm:
                return self._users((*base, index, "authentication", "simple", "users"))
        self._found.complain(path, "no realm of this name in security.realms")
        return ()

    def _users(self, base: Path) -> tuple[User, ...]:
        users = []
        for index in list(self._found.children(base)):
            name = self._found.values.get((*base, index, "username"))
            password = self._found.values.get((*base, index, "password"))
            if name is None or password is None:
                self._found.complain((*base, index), "needs a username and a password")
            elif ":" in str(name):
                self._found.complain((*base, index, "username"), "must not contain a colon")
            else:
                users.append(User(str(name), str(password)))
        if not users:
            self._found.complain(base, "the realm has no user who could authenticate")
        return tuple(users)

    def _maps(self, persistence: bool) -> dict[str, MapConfig]:
        return {
            name: MapConfig(*kept, self._number_of("map", name, "time-to-live-seconds"))
            for name, kept in self._structures("map", persistence)
        }

    def _queues(self, persistence: bool) -> dict[str, QueueConfig]:
        return {
            name: QueueConfig(*kept, self._number_of("queue", name, "max-size") or MAX_COUNT)
            for name, kept in self._structures("queue", persistence)
        }

    def _number_of(self, kind: str, name: str, setting: str) -> int:
        return int(self._value((kind, name, setting), kind, WILDCARD, setting) or 0)

    def _structures(self, kind: str, persistence: bool) -> list[tuple[str, tuple[bool, bool]]]:
        names = [str(name) for name in self._found.children((kind,))]
        for name in names:
            if name.count(WILDCARD) > 1:
                self._found.complain((kind, name), "may hold one * only")
            self._check_backups(kind, name)
        for one, other in ambiguous(names):
            self._found.complain((kind, other), f"matches names that {one} matches as well")
        return [(name, self._kept(kind, name, persistence)) for name in names]

    def _check_backups(self, kind: str, name: str) -> None:
        total = self._number_of(kind, name, "backup-count")
        total += self._number_of(kind, name, "async-backup-count")
        if total > MAX_BACKUPS_MEMBERS:
            self._found.complain(
                (kind, name), f"has more than {MAX_BACKUPS_MEMBERS} backups, both counts together"
            )

    def _kept(self, kind: str, name: str, persistence: bool) -> tuple[bool, bool]:
        path: Path = (kind, name, "data-persistence")
        enabled = self._found.values.get((*path, "enabled"))
        fsync = self._found.values.get((*path, "fsync"))
        if enabled is True and not persistence:
            self._found.complain((*path, "enabled"), "needs persistence.enabled, which is off")
        if fsync is True and enabled is False:
            self._found.complain((*path, "fsync"), "contradicts enabled: false beside it")
        return enabled is not False, fsync is not False


def _text_path(path: Path) -> tuple[str, ...]:
    return tuple(str(part) for part in path)


def _group(name: str) -> EndpointGroup | None:
    plain = name.replace("_", "").upper()
    return next((g for g in EndpointGroup if g.value.replace("_", "") == plain), None)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
