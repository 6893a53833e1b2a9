"""The typed configuration of a cluster of several members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.config.model.security import TlsConfig

EVERY_INTERFACE: Final = "*"
MEMBERS_PORT_OFFSET: Final = 100
"""From the REST port of a member that is listed by it to its members' port. A REST port that is
counted up is tried so many times, so that the two do not meet."""
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what `*` asks for


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How this member finds the others and how they know each other."""

    port: int
    """Where it listens for the others."""
    members: tuple[tuple[str, int], ...]
    """Host (IPv6 without brackets) and port of every member as listed, this one included."""
    user: str
    password: str = field(repr=False)
    """What members show each other: the same for all of a cluster, another for all others."""
    interfaces: tuple[str, ...] = (EVERY_INTERFACE,)
    """The one IP address to listen on, or `*` for every one."""
    tls: TlsConfig | None = None
    """There are always a `client_ca` and no `key_password`; None: members talk in plain text."""
    lite: bool = False
    """Whether this member holds no data."""
    by_rest_ports: bool = False
    """Whether the list has the members' REST ports: `members` has the ports that follow from them,
    and `port` follows from the REST port, also when that was counted up."""
    steps_aside: bool = False
    """Whether the member takes another one of the ports that the list has for its machine when
    `port` is taken: nobody named it, and there is no data on disk that the others know by it."""
    backup_count: int = 1
    """The highest of all maps and queues: 0, 1 or 2."""

    @property
    def host(self) -> str:
        """The address to listen on."""
        return _EVERY_ADDRESS if EVERY_INTERFACE in self.interfaces else self.interfaces[0]
