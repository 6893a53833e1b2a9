"""How the members of a cluster find and know each other, from what a document says."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.config.addresses import host_key, is_address, split_address
from grid_member.config.model.cluster import (
    EVERY_INTERFACE,
    MEMBERS_PORT_OFFSET,
    ClusterConfig,
)
from grid_member.config.settings.setting import MAX_CLUSTER_BACKUPS_MEMBERS, MAX_PORT
from grid_member.config.settings.shape import path_text

if TYPE_CHECKING:
    from grid_member.config.build_network import ListenerSettings, MembersListenerSettings
    from grid_member.config.build_security import Realms
    from grid_member.config.model.member import ListenerConfig, User
    from grid_member.config.settings.shape import Path
    from grid_member.config.values import Values

_USER: Final = "grid"
"""Members have one name for each other; what they show is the password alone."""
_DERIVATION: Final = "sha256"
_DERIVATION_ROUNDS: Final = 100_000
"""Makes guessing the identity's password from what went over a line slow: some 50 ms a guess."""
_ANY_TEXT: Final = "surrogatepass"
"""An environment variable need not be UTF-8."""
_MEMBER_REALM: Final[Path] = ("security", "member-authentication", "realm")
MAX_CLUSTER_VALUE_BYTES: Final = 60 << 20
"""A record travels whole, and nats-server takes 64 MiB at most."""
_VALUE_BYTES: Final[Path] = ("limits", "value-bytes")
_LITE: Final[Path] = ("lite-member", "enabled")
_DEFAULT_BACKUPS: Final = 1


def cluster_config(
    values: Values, realms: Realms, listeners: ListenerSettings
) -> ClusterConfig | None:
    """Return how this member is one of several, None when it is alone. Notes problems in found."""
    joining = listeners.members
    lite = values.flag(_LITE)
    if joining is None or len(listeners.join_members or ()) < 2:
        if lite:
            message = "needs others to hold the data: list all members in join.tcp-ip.member-list"
            values.complain(_LITE, message)
        return None
    by_rest_ports = _lists_rest_ports(values, joining, listeners)
    if by_rest_ports:
        _check_ports_given(values, joining)
    if by_rest_ports and listeners.rest is not None:
        joining = _to_members_ports(values, joining, listeners.rest)
    _check_port(values, joining, listeners)
    _check_interfaces(values, joining)
    _check_limits(values)
    return ClusterConfig(
        port=joining.port,
        members=_members(values, joining),
        user=_USER,
        password=_password(values.text(("cluster-name",)) or "", _identity(values, realms)),
        interfaces=joining.interfaces,
        tls=joining.tls,
        lite=lite,
        by_rest_ports=by_rest_ports,
        steps_aside=not (
            by_rest_ports
            or values.is_written(joining.port_path)
            or values.flag(("persistence", "enabled"))
        ),
        backup_count=_backup_count(values),
    )


def _lists_rest_ports(
    values: Values, joining: MembersListenerSettings, listeners: ListenerSettings
) -> bool:
    """Tell whether the list has the REST ports of the members in place of their members' ports.

    All members come to the same answer: their list is the same, and each finds its own REST port in
    it. A members' port that is configured is never replaced.
    """
    if values.is_written(joining.port_path) or listeners.rest is None:
        return False
    ports = [split_address(address)[1] for _, address in joining.entries if is_address(address)]
    return listeners.rest.port in ports


def _check_ports_given(values: Values, joining: MembersListenerSettings) -> None:
    """Note each item of a list of REST ports that has none.

    The REST port of another member is not known here, and that member may not find its own in the
    list: then it takes the list for one of members' ports, and the two never meet.
    """
    for path, address in joining.entries:
        if is_address(address) and split_address(address)[1] is None:
            message = (
                "has no port, and another item has the REST port of this member: write each item "
                "as HOST:PORT with the REST port of that member, or set "
                f"{path_text(joining.port_path)} when the list has members' ports"
            )
            values.complain(path, message)


def _to_members_ports(
    values: Values, joining: MembersListenerSettings, rest: ListenerConfig
) -> MembersListenerSettings:
    """Return the same with the members' ports that follow from the listed REST ports."""
    listed: list[tuple[Path, str]] = []
    for path, address in joining.entries:
        host, port = split_address(address) if is_address(address) else ("", None)
        members_port = (port or 0) + MEMBERS_PORT_OFFSET
        if members_port > MAX_PORT:
            message = (
                f"is a REST port that has no members' port {MEMBERS_PORT_OFFSET} above it: set "
                f"{path_text(joining.port_path)}, and list the members' ports"
            )
            values.complain(path, message)
            members_port = port or 0  # several such items stay different ones
        shown = f"[{host}]" if ":" in host else host
        listed.append((path, f"{shown}:{members_port}" if host else address))
    return replace(joining, port=rest.port + MEMBERS_PORT_OFFSET, entries=tuple(listed))


def rest_of_several(
    values: Values, rest: ListenerConfig | None, cluster: ClusterConfig | None
) -> ListenerConfig | None:
    """Return the REST listener of a member; where members are listed by REST ports it tries those.

    A port that the configuration names is that of this member, unless it says to count up. With
    data on disk it never counts up: by the port the others know which member has which data, and
    one at the port of another that is down would be taken for that one, come back without its data.
    """
    if rest is None or cluster is None or not cluster.by_rest_ports:
        return rest
    port: Path = tuple(rest.port_setting.split("."))
    named = values.is_written((*port, "port")) and not values.is_written((*port, "auto-increment"))
    if not rest.auto_increment or named or values.flag(("persistence", "enabled")):
        return replace(rest, auto_increment=False, port_count=1)
    listed = {port - MEMBERS_PORT_OFFSET for _, port in cluster.members}
    count = next(n for n in range(1, MAX_PORT) if rest.port + n not in listed)
    count = min(rest.port_count, count)
    return replace(rest, auto_increment=count > 1, port_count=count)


def _check_port(
    values: Values, joining: MembersListenerSettings, listeners: ListenerSettings
) -> None:
    for other in filter(
        None, (listeners.rest, listeners.management, listeners.metrics, listeners.wan)
    ):
        if other.port == joining.port:
            values.complain(joining.port_path, f"must differ from the port of {other.port_setting}")


def _check_interfaces(values: Values, joining: MembersListenerSettings) -> None:
    if len(joining.interfaces) > 1 and EVERY_INTERFACE not in joining.interfaces:
        message = (
            f"lists several addresses, and the port of {path_text(joining.port_path)} listens on "
            "one or on all: list one or *, or give it interfaces of its own in advanced-network"
        )
        values.complain(joining.interfaces_path, message)


def _check_limits(values: Values) -> None:
    if values.number(_VALUE_BYTES) > MAX_CLUSTER_VALUE_BYTES:
        message = f"must be at most {MAX_CLUSTER_VALUE_BYTES} with several members"
        values.complain(_VALUE_BYTES, message)


def _members(values: Values, joining: MembersListenerSettings) -> tuple[tuple[str, int], ...]:
    members: list[tuple[str, int]] = []
    places: dict[tuple[str, int], Path] = {}
    for path, address in joining.entries:
        if not is_address(address):
            continue  # the reader of the list says so
        host, port = split_address(address)
        member = (host, port or joining.port)
        first = places.setdefault((host_key(host), member[1]), path)
        if first != path:
            values.complain(path, f"is the same member as {path_text(first)}")
        members.append(member)
    return tuple(members)


def _identity(values: Values, realms: Realms) -> User | None:
    """Return what members show each other with security on, None with it off."""
    name = values.text(_MEMBER_REALM)
    if not values.flag(("security", "enabled")) or name is None:
        return None
    return realms.identity(name)


def _password(cluster_name: str, identity: User | None) -> str:
    """Return what members show each other, of which nothing else can be learned.

    Clusters of different names have different ones, whether there is security or not.
    """
    salt = hashlib.sha256(cluster_name.encode(errors=_ANY_TEXT)).digest()
    if identity is None:
        return salt.hex()
    salt += identity.name.encode(errors=_ANY_TEXT)
    secret = identity.password.encode(errors=_ANY_TEXT)
    return hashlib.pbkdf2_hmac(_DERIVATION, secret, salt, _DERIVATION_ROUNDS).hex()


def _backup_count(values: Values) -> int:
    """Return the highest of all maps and queues."""
    counts = []
    for path in [(kind, name) for kind in ("map", "queue") for name in values.children((kind,))]:
        counts.append(values.number((*path, "backup-count")))
        if counts[-1] > MAX_CLUSTER_BACKUPS_MEMBERS:
            message = f"must be from 0 to {MAX_CLUSTER_BACKUPS_MEMBERS} in a cluster"
            values.complain((*path, "backup-count"), message)
        if values.number((*path, "async-backup-count")):
            message = "must be 0 in a cluster: a write is answered when its backups have it"
            values.complain((*path, "async-backup-count"), message)
    return max(counts, default=_DEFAULT_BACKUPS)
