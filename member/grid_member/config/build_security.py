"""Security and TLS from what a document says, with the checks that span several elements."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.config.model.member import EndpointGroup, User
from grid_member.config.model.security import (
    PROBES,
    ClientCertificates,
    ProtectedEndpoints,
    RealmConfig,
    SecurityConfig,
    TlsConfig,
)
from grid_member.config.settings.shape import path_text

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from grid_member.config.settings.shape import Path
    from grid_member.config.values import Values

_SECURITY: Final[Path] = ("security",)
_REALMS: Final[Path] = ("security", "realms")
_MEMBER_REALM: Final[Path] = ("security", "member-authentication", "realm")
_PROTECTED: Final[Path] = ("security", "rest", "protected")
ENDPOINT_PATHS: Final = (
    "/grid/health",
    *(f"/grid/rest/{name}" for name in ("maps", "queues", "cluster", "instance", "openapi.json")),
    *(f"/grid/rest/{name}" for name in ("management/cluster", "license", "log-level", "config")),
    *(f"/grid/rest/{name}" for name in ("wan", "cp-subsystem")),
)
"""Every path of the interface is one of these or below one: others in a list protect nothing."""
_QUEUES: Final = ("grid", "rest", "queues")
_SIZE: Final = "size"
_KEY_PAIR: Final = ("certificate-file", "key-file")
_MARKS: Final = frozenset("%?#*{}")
"""Characters that are meant as something else than themselves."""


def security_config(values: Values, realms: Realms) -> SecurityConfig:
    """Return who may call what. Notes problems in found."""
    enabled = values.flag((*_SECURITY, "enabled"))
    name = values.text(_MEMBER_REALM)
    realm = realms.find(name, _MEMBER_REALM) if name is not None else None
    if enabled and name is None:
        values.complain(_SECURITY, "needs member-authentication.realm when enabled")
    protected = _protected_endpoints(values)
    if values.is_written((*_PROTECTED, 0)) and not enabled:
        message = "protects nothing as long as security.enabled is off: enable it or leave this out"
        values.complain(_PROTECTED, message)
    return SecurityConfig(enabled, realm, protected)


class Realms:
    """All of `security.realms`, whether anything refers to them or not."""

    def __init__(self, values: Values) -> None:
        """Read and check them. Notes problems in found."""
        self._values = values
        self._by_name: dict[str, _ParsedRealm] = {}
        for index in list(values.children(_REALMS)):
            self._add((*_REALMS, index))

    def find(self, name: str, path: Path) -> RealmConfig:
        """Return the realm that the element at path refers to; it has users or an identity."""
        read = self._by_name.get(name)
        if read is None:
            self._values.complain(path, "no realm of this name in security.realms")
            return RealmConfig(name)
        if not read.realm.callers and not read.is_reported:
            read.is_reported = True
            users = (*read.path, "authentication", "simple", "users")
            self._values.complain(users, "the realm has no user who could authenticate")
        return read.realm

    def identity(self, name: str) -> User | None:
        """Return what members of the realm show each other. Notes a problem when it has none."""
        read = self._by_name.get(name)
        if read is None:
            return None  # told of by whoever asked for the realm
        if not self._values.is_written((*read.path, "identity")):
            message = "needs an identity: with security members show it to each other"
            self._values.complain(read.path, message)
        return read.realm.identity

    @property
    def identities(self) -> dict[str, User]:
        """The identities of the realms that have one."""
        found = {name: read.realm.identity for name, read in self._by_name.items()}
        return {name: identity for name, identity in found.items() if identity is not None}

    def target_identity(self, name: str, path: Path) -> User | None:
        """Return what a publisher, whose `realm` is at path, shows to its target.

        Notes a problem when there is no such realm, or the realm has no identity.
        """
        read = self._by_name.get(name)
        if read is None:
            self._values.complain(path, "no realm of this name in security.realms")
            return None
        if not self._values.is_written((*read.path, "identity")):
            message = (
                "names a realm without identity.username-password, which the member would show to "
                "the target"
            )
            self._values.complain(path, message)
        return read.realm.identity

    def _add(self, path: Path) -> None:
        name = self._values.find((*path, "name"))
        if name is None:
            self._values.complain(path, "needs a name")
        elif str(name) in self._by_name:
            self._values.complain((*path, "name"), "is the name of another realm as well")
        else:
            users, told = self._users((*path, "authentication", "simple", "users"))
            self._by_name[str(name)] = _ParsedRealm(
                RealmConfig(str(name), users, self._identity(path)), path, told
            )

    def _identity(self, path: Path) -> User | None:
        identity = (*path, "identity")
        if not self._values.is_written(identity):
            return None
        return self._user((*identity, "username-password"))

    def _users(self, path: Path) -> tuple[tuple[User, ...], bool]:
        """Return the users, and whether one of them was complained about."""
        users: dict[str, User] = {}
        told = False
        for index in list(self._values.children(path)):
            user = self._user((*path, index))
            key = unicodedata.normalize("NFC", user.name) if user else ""
            if user is None:
                told = True
            elif key in users:
                self._values.complain((*path, index, "username"), "is there twice in this realm")
            else:
                users[key] = user
        return tuple(users.values()), told

    def _user(self, path: Path) -> User | None:
        name = self._values.find((*path, "username"))
        password = self._values.find((*path, "password"))
        if name is None or password is None:
            self._values.complain(path, "needs a username and a password")
            return None
        before = len(self._values.problems)
        if ":" in str(name):
            # It ends the name in HTTP Basic authentication.
            self._values.complain((*path, "username"), "must not contain a colon")
        for leaf, text in (("username", str(name)), ("password", str(password))):
            if any(unicodedata.category(c) == "Cc" for c in text):
                message = "must not hold control characters, nor end in a line break"
                self._values.complain((*path, leaf), message)
        return User(str(name), str(password)) if len(self._values.problems) == before else None


@dataclass(slots=True)
class _ParsedRealm:
    realm: RealmConfig
    path: Path
    is_reported: bool = field(default=False)
    """Whether the lack of users was complained about."""


def tls_config(
    values: Values, section: Path, directory: FilePath, default_authorities: str | None = None
) -> TlsConfig | None:
    """Return the `ssl` element of a listener at the path section, None when it is off.

    Relative files are taken from directory. `default_authorities` check the clients' certificates
    where there is no client-ca-file. Notes problems in found.
    """
    mode = ClientCertificates(values.text((*section, "client-certificates")))
    authorities = values.text((*section, "client-ca-file"))
    if mode is not ClientCertificates.NONE:
        authorities = authorities or default_authorities
    if mode is not ClientCertificates.NONE and authorities is None:
        path = (*section, "client-certificates")
        values.complain(path, f"{mode.value} needs a client-ca-file to check them with")
    if mode is ClientCertificates.NONE and authorities is not None:
        path = (*section, "client-ca-file")
        values.complain(path, "has no effect without client-certificates: optional or required")
    if not values.flag((*section, "enabled")):
        return None
    certificate, key = _files(values, section, directory, *_KEY_PAIR)
    return TlsConfig(
        setting=path_text(section),
        certificate=certificate,
        key=key,
        key_password=values.text((*section, "key-password")),
        minimum_version=values.text((*section, "minimum-version")) or "",
        client_certificates=mode,
        client_ca=None if authorities is None else directory / authorities,
    )


def members_tls(values: Values, section: Path, directory: FilePath) -> TlsConfig | None:
    """Return the `ssl` element of the members' port, as `tls_config` does that of a listener."""
    if not values.flag((*section, "enabled")):
        return None
    certificate, key, authorities = _files(values, section, directory, *_KEY_PAIR, "ca-file")
    return TlsConfig(
        setting=path_text(section),
        certificate=certificate,
        key=key,
        client_certificates=ClientCertificates.REQUIRED,
        client_ca=authorities,
    )


def _files(values: Values, section: Path, directory: FilePath, *names: str) -> list[FilePath]:
    files = [values.text((*section, name)) for name in names]
    for name, file in zip(names, files, strict=True):
        if file is None:
            values.complain(section, f"needs a {name} when enabled")
    return [directory / (file or "") for file in files]


def _protected_endpoints(values: Values) -> ProtectedEndpoints:
    groups: set[EndpointGroup] = set()
    paths: dict[tuple[str, ...], None] = {}
    for index in list(values.children(_PROTECTED)):
        item = values.find((*_PROTECTED, index))
        if item is None:
            continue
        group = _group(str(item))
        if group is not None:
            groups.add(group)
            continue
        wrong = _wrong_path(str(item))
        if wrong is not None:
            values.complain((*_PROTECTED, index), wrong)
        else:
            paths[_parts(str(item))] = None
    return ProtectedEndpoints(frozenset(groups), tuple(paths))


def _group(name: str) -> EndpointGroup | None:
    plain = name.replace("_", "").upper()
    return next((g for g in EndpointGroup if g.value.replace("_", "") == plain), None)


def _wrong_path(text: str) -> str | None:
    if not text.startswith("/"):
        known = ", ".join(group.value for group in EndpointGroup)
        return f"must be an endpoint group ({known}) or a path that begins with /grid/"
    if _MARKS & set(text):
        return "is a path as it is, decoded and without %, ?, #, * and braces"
    parts = _parts(text)
    if any(parts[: len(probe)] == probe for probe in PROBES):
        probe = "/".join(("", *parts[:3]))
        return f"{probe} can never be protected: probes carry no credentials"
    if parts[:3] == _QUEUES and len(parts) > 4 and parts[4] != _SIZE:
        queue = "/".join(("", *parts[:4]))
        return f"would leave polls with other seconds open: protect {queue}"
    known_parts = [_parts(path) for path in ENDPOINT_PATHS]
    if not any(_overlap(parts, path) for path in known_parts):
        return f"no endpoint is there; they are below {', '.join(ENDPOINT_PATHS)}"
    return None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.removesuffix("/").split("/")[1:])


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Tell whether one of the two is at or below the other."""
    size = min(len(one), len(other))
    return size > 0 and one[:size] == other[:size]
