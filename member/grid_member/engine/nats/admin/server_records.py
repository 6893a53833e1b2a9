"""Which server a member has, and where it is: what the others go by when it comes back without it.

A member that keeps nothing on disk comes back as somebody new, and so does one whose disk is empty.
The others would count its former server as one that is away for ever: it would hold copies of
streams and a vote. So every member notes which server it has. A silent one whose place has another
server now never comes back.

    server/<name>     the note: where it is
    leaving/<name>    its copies go elsewhere, then it leaves for good
    removed/<id>      was taken off; with the data that it had it must not come back
"""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings

SERVER: Final = "server/"
LEAVING: Final = "leaving/"
REMOVED: Final = "removed/"
LEFT: Final = b"left"
"""The value under a removed one: it left for good, nobody takes its place."""
REPLACED: Final = b"replaced"


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """Where a server is."""

    host: str
    member: str
    port: int
    listed: tuple[str, ...]
    """The hosts of the list of members that are this machine, as far as that is known."""
    durable: bool

    def excludes(self, other: ServerRecord) -> bool:
        """Tell whether two servers at these places cannot run at the same time."""
        if (self.host, self.member, self.port) != (other.host, other.member, other.port):
            return False
        # Machines that were copied have the same name.
        return not (self.listed and other.listed) or bool({*self.listed} & {*other.listed})

    def encode(self) -> bytes:
        """Return it as it is noted."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def decode_server_record(value: bytes) -> ServerRecord | None:
    """Return what was noted, None when it is of another version."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = json.loads(value)
        return ServerRecord(
            str(found["host"]),
            str(found["member"]),
            int(found["port"]),
            tuple(map(str, found["listed"])),
            bool(found["durable"]),
        )
    return None


def own_record(settings: ClusterSettings) -> ServerRecord:
    """Return where this member is. Blocks: hosts are looked up."""
    hosts = {host for host, port in settings.members if port == settings.port}
    return ServerRecord(
        socket.gethostname(),
        settings.member_name,
        settings.port,
        tuple(sorted(host for host in hosts if _is_here(host))),
        settings.directory is not None,
    )


def _is_here(host: str) -> bool:
    """Tell whether an address of the host is one of this machine."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as tried:
            tried.bind(address)
            return True
    return False
