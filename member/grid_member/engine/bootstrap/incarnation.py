"""One process that is a member, and how two that are the same member tell which of them goes on.

A copied directory, of a cloned disk or a restored snapshot, makes two processes one member: their
servers share a vote, and what one of them acknowledged counts for the other. The one that was
started later ends, before its server talks to any other one if that can be.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.log.log import Clock

_TOKEN_BYTES: Final = 8
_WHOSE_CHARACTERS: Final = 8
"""Of a lot: they follow from the member, the others from when its process was started."""
_TIMES: Final = 1 << 32
"""Milliseconds after which such a time begins anew."""
_ANYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened to


class TwinError(EngineError):
    """Another process is the same member, and was started before this one."""


class Incarnation(NamedTuple):
    """One process that is a member."""

    member: str
    """The member's UUID, in hexadecimal digits."""
    token: str
    """Of this process alone."""
    since_ms: int
    """When it was started, milliseconds since the epoch."""
    name: str
    """The member's, for people."""
    address: str
    """Where it listens for other members, for people."""
    directory: str
    """Where its data is, empty when it keeps none."""

    @property
    def payload(self) -> bytes:
        """This, as it is sent."""
        return json.dumps(self, separators=(",", ":")).encode()

    def is_twin_of(self, other: Incarnation) -> bool:
        """Tell whether two processes are the same member."""
        return self.member == other.member and self.token != other.token

    def yields_to(self, other: Incarnation) -> bool:
        """Tell which of two twins ends: the one that was started later."""
        return (self.since_ms, self.token) > (other.since_ms, other.token)

    @property
    def lot(self) -> str:
        """What this process says while it waits: tells twins, and which of two is older."""
        whose = hashlib.sha256(self.member.encode()).hexdigest()[:_WHOSE_CHARACTERS]
        return f"{whose}{self.since_ms % _TIMES:08x}"


def own_incarnation(
    settings: ClusterSettings, identity: MemberIdentity, clock: Clock
) -> Incarnation:
    """Return this process, as it describes itself to other members."""
    host = socket.gethostname() if settings.host in _ANYWHERE else settings.host
    return Incarnation(
        identity.uuid.hex,
        secrets.token_hex(_TOKEN_BYTES),
        clock(),
        settings.member_name,
        f"{host}:{settings.port}",
        "" if settings.directory is None else str(settings.directory.absolute()),
    )


def decode_incarnation(said: bytes) -> Incarnation | None:
    """Return what was packed; None when it is something else, as of another version."""
    try:
        member, token, since_ms, name, address, directory = json.loads(said)
        return Incarnation(
            str(member), str(token), int(since_ms), str(name), str(address), str(directory)
        )
    except (ValueError, TypeError):
        return None


def is_older_twin(lot: str, other: str) -> bool:
    """Tell whether the other lot is of an older process of the same member."""
    whose, since = lot[:_WHOSE_CHARACTERS], int(lot[_WHOSE_CHARACTERS:], 16)
    if other[:_WHOSE_CHARACTERS] != whose:
        return False
    return 0 < (since - int(other[_WHOSE_CHARACTERS:], 16)) % _TIMES < _TIMES // 2


def twin_error(own: Incarnation, older: Incarnation | None, where: str) -> TwinError:
    """Return why this process ends, and what to do.

    Args:
        own: this process.
        older: the other one; None when it does not tell more than that it is there.
        where: the address at which it was found, as the list of members has it.
    """
    whereabouts = f"at {where}"
    if older is not None:
        whereabouts = f"{older.name} at {older.address}"
        whereabouts += f" with its data in {older.directory}" if older.directory else ""
    place = own.directory or "this member's data"
    return TwinError(
        f"another process runs as this member ({whereabouts}): {place} is a copy of its data, as a "
        "cloned disk or a restored snapshot is. Start this member on an empty base directory, and "
        "it copies everything from the others; or stop the other process first if this one is to "
        "take its place"
    )
