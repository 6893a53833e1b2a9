"""Which servers lead the logs in memory for how long, and whether the own copies are complete."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.integrity.damage import details_of
from grid_member.engine.nats.admin.peers import ACCOUNT, REQUEST_TIMEOUT_S, peer_id
from grid_member.engine.nats.admin.questions import STREAMS
from grid_member.engine.nats.admin.streams import NoStreamError, ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grid_member.engine.nats.client.client import NatsClient

LEADERLESS_S: Final = 12.0
"""How long a log may be without a leader until none is expected. Elections take up to nine."""


def leader_of(info: Mapping[str, Any]) -> tuple[str, float]:
    """Return the id of a stream's leader, and for how many seconds it has led, by its own clock.

    An empty id: nobody leads it.
    """
    cluster = info.get("cluster") or {}
    if not cluster.get("leader"):
        return "", 0.0
    now, since = str(info["ts"]), str(cluster["leader_since"])
    led_s = (datetime.fromisoformat(now) - datetime.fromisoformat(since)).total_seconds()
    return peer_id(str(cluster["leader"])), led_s


class Leaders:
    """What one member found out about them, by the names of the logs."""

    def __init__(self) -> None:
        self._without_s: dict[str, float] = {}
        """Since when a log has no leader."""

    async def creation_time(self, client: NatsClient, name: str) -> str | None:
        """Return when the log was made that is there, empty when there is none.

        None: no server tells. One that holds a copy tells without a leader, too.
        """
        created, leader = None, ""
        try:
            info = await ask_successfully(client, f"STREAM.INFO.{name}")
            created, (leader, _) = str(info["created"]), leader_of(info)
        except NoStreamError:
            self.forget(name)
            return ""
        except NatsError:
            pass
        if leader:
            self.forget(name)
        else:
            self._without_s.setdefault(name, asyncio.get_running_loop().time())
        return created

    def is_leaderless(self, name: str) -> bool:
        """Tell whether the log has no leader for so long that none is expected."""
        since_s = self._without_s.get(name)
        return since_s is not None and asyncio.get_running_loop().time() - since_s > LEADERLESS_S

    def forget(self, name: str) -> None:
        """Count from the beginning when the log has no leader next."""
        self._without_s.pop(name, None)


async def has_complete_copies(
    client: NatsClient, system: NatsClient, server: str, streams: Iterable[str]
) -> bool:
    """Tell whether a server's copies of the streams hold all that their leaders tell of.

    Raises:
        NatsError: nobody tells.
    """
    infos = {name: await ask_successfully(client, f"STREAM.INFO.{name}") for name in streams}
    held = await _last_held(system, server)
    return all(is_complete(info, server, held.get(name)) for name, info in infos.items())


def is_complete(info: Mapping[str, Any], server: str, last: int | None) -> bool:
    """Tell whether a server's copy of a stream holds what its leader tells of it.

    That the leader calls a copy current says only that it has heard of it.

    Args:
        info: what the leader tells.
        server: the server's name.
        last: the last sequence of its copy, None when it has none.
    """
    leader, _ = leader_of(info)
    replicas = {str(one["peer"]) for one in info["cluster"].get("replicas") or ()}
    own = peer_id(server)
    if not leader:
        return False
    if leader == own or own not in replicas:
        return True
    return last is not None and last >= int(info["state"]["last_seq"])


async def _last_held(system: NatsClient, server: str) -> dict[str, int]:
    """Return the last sequences of the copies that a server holds, by the streams' names."""
    asked = {"server_name": server, "exact_match": True, "account": ACCOUNT, "streams": True}
    request = json.dumps(asked).encode()
    answer = await system.request(STREAMS, request, timeout_s=REQUEST_TIMEOUT_S)
    details = details_of(json.loads(answer.payload))
    return {str(one["name"]): int(one["state"]["last_seq"]) for one in details}
