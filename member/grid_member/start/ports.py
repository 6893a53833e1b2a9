"""Taking the ports of a member that is started again while its former process ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.http.server.listener import TakenError, bind, binding_order
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from grid_member.config.model.member import ListenerConfig

PORT_PATIENCE_S: Final = 5.0
"""How long who has the last port to choose from may take to end, as with a directory."""
_LOOK_S: Final = 0.05
_log: Final = logging.getLogger("grid.member")
BoundListeners: TypeAlias = "list[tuple[ListenerConfig, list[socket.socket]]]"


class GivenUpError(Exception):
    """Nobody waits for the ports any more."""


async def bind_in_time(
    listeners: list[ListenerConfig], given_up: Callable[[], bool]
) -> BoundListeners:
    """Return the listeners with what `bind` returns, as soon as all have a port.

    Meanwhile none is held: a client that comes is refused, and does not wait for an answer.

    Args:
        listeners: of one member.
        given_up: tells whether nobody waits for it any more.

    Raises:
        PortError: as `bind`, which is tried for `PORT_PATIENCE_S` while all ports are taken.
        GivenUpError: the stop came first.
    """
    now_s = asyncio.get_running_loop().time
    ends_s: float | None = None
    while True:
        try:
            return _bind_one(binding_order(listeners))
        except TakenError as error:
            if ends_s is None:
                ends_s = now_s() + PORT_PATIENCE_S
                event(_log, logging.INFO, f"waiting for a port: {error}")
            elif now_s() >= ends_s:
                raise
        if given_up():
            raise GivenUpError
        await asyncio.sleep(_LOOK_S)


def release(bound: BoundListeners) -> None:
    """Give back what nobody is to listen at."""
    for _, sockets in bound:
        for one in sockets:
            one.close()


def _bind_one(listeners: list[ListenerConfig]) -> BoundListeners:
    with contextlib.ExitStack() as unserved:
        bound: BoundListeners = []
        for listener in listeners:
            sockets = bind(listener)
            bound.append((listener, sockets))
            for one in sockets:
                unserved.enter_context(one)
        unserved.pop_all()
    return bound
