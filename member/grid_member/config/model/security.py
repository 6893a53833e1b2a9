"""The typed configuration of security: realms, what asks for credentials, and TLS.

No field that holds a secret is shown by `repr`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from grid_member.config.model.member import EndpointGroup, User

PROBES: Final = (("grid", "health", "ready"), ("grid", "health", "node-state"))
"""The parts of the paths that never ask for credentials: Kubernetes probes carry none."""


@dataclass(frozen=True, slots=True)
class RealmConfig:
    """One of `security.realms`: who may call, and who this member says it is."""

    name: str
    users: tuple[User, ...] = ()
    identity: User | None = None
    """What this member itself presents to the others."""

    @property
    def callers(self) -> tuple[User, ...]:
        """Who may authenticate: the users, without any the identity (P 12.3)."""
        if self.users or self.identity is None:
            return self.users
        return (self.identity,)


@dataclass(frozen=True, slots=True)
class ProtectedEndpoints:
    """What `security.rest.protected` lists: endpoint groups, and paths with all below them."""

    groups: frozenset[EndpointGroup] = frozenset()
    paths: tuple[tuple[str, ...], ...] = ()
    """Decoded parts, without the empty one before the first slash."""

    def covers(
        self,
        groups: Collection[EndpointGroup],
        parts: tuple[str, ...],
        *,
        everything_below: bool = False,
    ) -> bool:
        """Tell whether a request to these decoded parts, in any of the groups, needs credentials.

        One group of several is enough: what is reached through two groups is protected by either.
        So is one path of several: a request to everything below its own path reaches them all.
        """
        if parts in PROBES:
            return False
        if not self.groups.isdisjoint(groups):
            return True
        if everything_below and any(path[: len(parts)] == parts for path in self.paths):
            return True
        return any(parts[: len(path)] == path for path in self.paths)


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Who may call what."""

    enabled: bool = False
    member_realm: RealmConfig | None = None
    """Checks body parameters and Basic headers; there is one whenever enabled."""
    protected_endpoints: ProtectedEndpoints = field(default_factory=ProtectedEndpoints)


class ClientCertificates(enum.Enum):
    """Whether a client proves who it is by a certificate of its own."""

    NONE = "none"
    OPTIONAL = "optional"
    """One that is sent must be valid."""
    REQUIRED = "required"
    """Without a valid one there is no connection, for probes neither."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The files that one listener speaks TLS with."""

    setting: str
    """The `ssl` element; errors name it."""
    certificate: Path
    """PEM: the certificate, then the intermediate ones."""
    key: Path
    key_password: str | None = field(default=None, repr=False)
    minimum_version: str = "TLSv1.2"
    client_certificates: ClientCertificates = ClientCertificates.NONE
    client_ca: Path | None = None
    """PEM: the authorities of the clients' certificates; there whenever those are asked for."""
