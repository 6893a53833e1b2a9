"""Members that are new to each other start their servers at nearly the same moment.

    listen at the members' port ─▶ reach the others ─▶ linger ─▶ own turn: the server starts there

A server without data asks for votes once, 0.1 to 0.8 s after it started, and again after 4 to 9 s.
Those without data need the votes of all. Asked before all are there, or by all at the same instant,
the vote is spoilt; asked when they have just come up, one after the other, they have a leader in a
second. It is a matter of time alone: starting at any other moment does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from typing import TYPE_CHECKING, Final

from grid_member.engine.bootstrap.member_probe import greeting, listen_and_say
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.io.listening import close_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.cluster_settings import ClusterSettings

STAGGER_S: Final = 15.0
"""Who is not there by then is not waited for."""
LINGER_S: Final = 0.15
"""How long a member stays after it has seen the others, so that they see it too."""
TURN_S: Final = 0.03
"""Between the starts of two servers: the later one finds the earlier one listening."""
_LOOK_S: Final = 0.05
_LOT: Final = re.compile(rb"GRID ([0-9a-f]{16})\n")
_SERVER: Final = ""
"""The lot of whoever has started its server."""


async def await_start(settings: ClusterSettings) -> None:
    """Return when it is time to start a server that has no data."""
    own = secrets.token_hex(8)
    listener = await listen_and_say(settings, f"GRID {own}\n".encode())
    if listener is None:
        return
    async with listener:
        looks = [asyncio.ensure_future(_reach(host, port)) for host, port in settings.members]
        try:
            with contextlib.suppress(TimeoutError):
                await _await_majority(looks)
            lots = {look.result() for look in looks if look.done()}
        finally:
            await end_tasks(*looks)
        await asyncio.sleep(LINGER_S)
        # Who has just come hears a lot as well: silence would be taken for a server.
        await close_servers([listener])
    await asyncio.sleep(TURN_S * sum(_SERVER < lot < own for lot in lots))


async def _await_majority(looks: Sequence[asyncio.Future[str]]) -> None:
    """Wait for all, or for as many servers as make a cluster that has voted."""
    servers = 0
    for look in asyncio.as_completed(looks, timeout=STAGGER_S):
        servers += await look == _SERVER
        if servers > len(looks) // 2:
            return


async def _reach(host: str, port: int) -> str:
    """Return the lot of whoever listens there, once somebody does."""
    while True:
        with contextlib.suppress(OSError, TimeoutError, UnicodeError, ValueError):
            # A server greets with a line as well, a longer one, or waits for TLS in silence.
            found = _LOT.fullmatch(await greeting(host, port))
            return found[1].decode() if found else _SERVER
        await asyncio.sleep(_LOOK_S)
