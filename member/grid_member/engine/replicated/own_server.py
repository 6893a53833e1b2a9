"""The connections of a member to its own nats-server, and whether that one counts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError, NotYetError
from grid_member.engine.nats.admin.peers import peer_id, peers, remove_server, step_down
from grid_member.engine.nats.admin.server_records import REMOVED
from grid_member.engine.nats.client.client import NatsClient
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.server.process import NatsServer
    from grid_member.engine.state.machine import State

CONNECT_S: Final = 1.0
"""How long a look at the connection to the own server waits."""
RETRY_S: Final = 0.05
HAND_OVER_S: Final = 0.5
"""Until it is looked whether somebody else leads by now."""
REACHED_S: Final = 15.0
"""How long a server may take to be there that is not to wait for others any more."""


def await_begin(client: NatsClient | None) -> NatsClient:
    """Return a connection that there is once the member has begun to join the others.

    Raises:
        EngineError: it has not.
    """
    if client is None:
        raise EngineError("the member has not begun to join the others")
    return client


def connection_to(
    server: NatsServer,
    settings: ClusterSettings,
    user: str,
    on_connection: Callable[[bool], None] | None = None,
) -> NatsClient:
    """Return a connection that is being made from now on."""
    client = NatsClient(
        lambda: server.client_address,
        user,
        server.token,
        settings.member_name,
        max_payload_bytes=settings.max_payload_bytes,
        on_connection=on_connection,
    )
    client.start()
    return client


async def await_connection(
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


async def connect_trusted(
    server: Callable[[], NatsServer | None],
    connections: Callable[[], tuple[NatsClient | None, ...]],
) -> list[NatsClient]:
    """Let the server start when it waits for others only; return the connections to it.

    Raises:
        NotYetError: they are not there in time.
    """
    clock = asyncio.get_running_loop().time
    ends_s = clock() + REACHED_S
    why: str | None = None
    while clock() < ends_s:
        found = server()
        if found is not None:
            why = found.failure
            found.trust()
        there = [one for one in connections() if one is not None and one.connected]
        if there and len(there) == len(connections()):
            return there
        await asyncio.sleep(RETRY_S)
    raise NotYetError(
        f"the member's nats-server is not there yet, nothing was done: {why or 'it is starting'}; "
        "ask again"
    )


def check_counted(state: State, name: str, directory: Path | None) -> None:
    """See whether the own server may hold the data that it has.

    Raises:
        EngineError: the others took it off while it was away.
    """
    if state.system.get(REMOVED + peer_id(name), 0) is not None:
        raise EngineError(
            f"the others took this member's server {name} off the cluster while it was away, "
            f"and its data is out of date: empty {directory} and start the member again, which "
            "copies everything from the others"
        )


async def take_off(system: NatsClient, name: str) -> None:
    """Take the server of that name off those that count; it hands over first what it leads.

    Once it was seen to count it is tried until it does not, for it would count for ever: nobody
    leads the servers while another one is elected.

    Raises:
        NatsError: nobody tells whether it counts.
    """
    own, counts = peer_id(name), False
    while True:
        try:
            if own not in (await peers(system)).ids:
                return
            counts = True
            handed_over = await step_down(system, own)
            if not handed_over:
                await remove_server(system, own)
                continue
        except NatsError:
            if not counts:
                raise
        await asyncio.sleep(HAND_OVER_S)
