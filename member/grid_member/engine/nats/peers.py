"""Servers that this member had before and will never have again.

A member that keeps nothing on disk comes back as somebody new. The others would count its former
server as one that is away for ever: it would hold copies of streams and a vote. So every member
notes which server it has, and the next one at the same place takes those off that are gone.
"""

from __future__ import annotations

import json
import logging
import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.nats.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client import NatsClient

SERVER: Final = "server/"
"""Keys of the system store: the name of a server, and under it its place."""
REQUEST_TIMEOUT_S: Final = 2.0
SILENCE_S: Final = 3.0
"""Servers that vote tell their leader every second that they live."""
_META: Final = b"$SYS.REQ.SERVER.PING.JSZ"
_REMOVE: Final = b"$JS.API.SERVER.REMOVE"
_log: Final = logging.getLogger("grid.engine.nats")


class Peers(NamedTuple):
    """The servers that vote on streams, as their leader sees them."""

    names: frozenset[str]
    silent: frozenset[str]
    """Those that their leader has not heard of for some seconds."""


def place_of(settings: ClusterSettings) -> bytes:
    """Return where a member is: two that say the same cannot run at the same time."""
    place = [socket.gethostname(), settings.member_name, settings.port]
    return json.dumps(place).encode()


def former_servers(records: Iterable[tuple[str, bytes]], own: str, place: bytes) -> list[str]:
    """Return the servers that were at the place before the own one, from the system store."""
    names = [(key.removeprefix(SERVER), value) for key, value in records]
    return [name for name, value in names if value == place and name != own]


async def peers(system: NatsClient) -> Peers:
    """Return the servers that vote.

    Args:
        system: a connection in the account of the system.

    Raises:
        NatsError: nobody leads them now.
    """
    answer = await system.request(_META, b'{"leader_only": true}', timeout_s=REQUEST_TIMEOUT_S)
    meta = json.loads(answer.payload).get("data", {}).get("meta_cluster") or {}
    if not meta.get("leader"):
        raise NatsError("nobody leads the servers now")
    replicas = meta.get("replicas") or []
    return Peers(
        frozenset([meta["leader"], *(one["name"] for one in replicas)]),
        frozenset(one["name"] for one in replicas if _is_silent(one)),
    )


def _is_silent(replica: Mapping[str, Any]) -> bool:
    # A server that was killed counts as online for minutes. Of one that led the others and is gone
    # its successor has never heard.
    silence_ns = replica.get("active", 0)
    return bool(replica.get("offline") or silence_ns == 0 or silence_ns > SILENCE_S * 1e9)


async def remove_server(system: NatsClient, name: str) -> None:
    """Take a server that is gone for ever off those that vote; its copies are made elsewhere.

    Raises:
        NatsError: it was not done.
    """
    request = json.dumps({"peer": name}).encode()
    answer = json.loads(
        (await system.request(_REMOVE, request, timeout_s=REQUEST_TIMEOUT_S)).payload
    )
    if "error" in answer:
        raise NatsError(f"{name}: {answer['error'].get('description', 'not removed')}")
    _log.info("the former server %s was removed", name)
