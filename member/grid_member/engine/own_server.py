"""The connections of a member to its own nats-server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.nats.client import NatsClient
from grid_member.engine.nats.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.server import NatsServer

CONNECT_S: Final = 1.0
"""How long a look at the connection to the own server waits."""
RETRY_S: Final = 0.05
REACHED_S: Final = 15.0
"""How long a server may take to be there that is not to wait for others any more."""


def connection_to(
    server: NatsServer,
    settings: ClusterSettings,
    user: str,
    changed: Callable[[bool], None] | None = None,
) -> NatsClient:
    """Return a connection that is being made from now on."""
    client = NatsClient(
        lambda: server.client_address,
        user,
        server.token,
        settings.member_name,
        max_payload_bytes=settings.max_payload_bytes,
        changed=changed,
    )
    client.start()
    return client


async def until_connected(
    client: NatsClient, server: NatsServer, waiting: Callable[[str], None]
) -> None:
    """Return when the connection is there, and tell why it is not."""
    while True:
        try:
            await client.wait_connected(CONNECT_S)
        except NatsError as error:
            waiting(server.failure or str(error))
            await asyncio.sleep(RETRY_S)
        else:
            return


async def trusted(
    server: Callable[[], NatsServer | None],
    connections: Callable[[], tuple[NatsClient | None, ...]],
) -> list[NatsClient]:
    """Let the server start when it waits for others only; return the connections to it.

    Args:
        server: returns it, once there is one.
        connections: returns those that there are to be.

    Raises:
        EngineError: they are not there in time.
    """
    clock = asyncio.get_running_loop().time
    ends_s = clock() + REACHED_S
    while clock() < ends_s:
        found = server()
        if found is not None:
            found.trust()
        there = [one for one in connections() if one is not None and one.connected]
        if there and len(there) == len(connections()):
            return there
        await asyncio.sleep(RETRY_S)
    raise EngineError("the member's nats-server is not there yet: ask again")
