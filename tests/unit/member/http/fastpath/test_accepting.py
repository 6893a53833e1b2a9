"""Connections that wait together to be accepted."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

WAITING: Final = 24
TURNS: Final = 8


async def test_many_are_accepted_in_a_few_turns_of_the_loop(one: RunningMember) -> None:
    """A turn is long while others are busy, and a probe waits behind all that came before."""
    clients = [socket.create_connection(("127.0.0.1", one.port)) for _ in range(WAITING)]
    try:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert one.listeners.counts().clients == WAITING
    finally:
        for client in clients:
            client.close()
