"""A quorum of one: nats-server elects nothing, not even itself, while it has no connection.

Each group of servers begins to elect once another server is connected to it. When all others are
gone for good none ever is, so the member connects to its own server as if it were one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Final

from grid_member.engine.bootstrap.member_probe import as_server
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.nats.admin.peers import is_sole
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient

RETRY_S: Final = 0.5
LOOK_S: Final = 2.0
"""How often a member that has begun asks its server who votes."""


class QuorumOfOne:
    """Connected to the own server for as long as there is a reason, from `begin` to `end`."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._asked = self._begun = False
        self._keeping: asyncio.Task[None] | None = None

    async def end(self) -> None:
        """Connect no more."""
        keeping, self._keeping = self._keeping, None
        await end_tasks(keeping)

    def begin(self, system: NatsClient, name: str) -> None:
        """Connect when the server of that name says that nobody else votes, or when asked."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep(system, name))

    def ask(self) -> None:
        """Let it be connected to whoever votes: the others are gone for good."""
        self._asked = True

    def note_start(self) -> None:
        """Go by who votes from now on: also when the server is started again."""
        self._asked, self._begun = False, True

    async def _keep(self, system: NatsClient, name: str) -> None:
        while True:
            if self._asked or await self._is_sole(system, name):
                await self._stay(name)
            await asyncio.sleep(LOOK_S if self._begun else RETRY_S)

    async def _is_sole(self, system: NatsClient, name: str) -> bool:
        try:
            return await is_sole(system, name)
        except (NatsError, ValueError):
            return False  # it does not tell yet

    async def _stay(self, name: str) -> None:
        """Be connected to the server of that name, until it hangs up."""
        port = self._settings.port
        for host in (host for host, listed in self._settings.members if listed == port):
            with contextlib.suppress(OSError, TimeoutError, EOFError, ValueError):
                async with as_server(self._settings, host, port) as hear:
                    while True:
                        kind, fields, _ = await hear()
                        if kind == b"INFO" and _name_in(fields) != name:
                            break


def _name_in(fields: list[bytes]) -> str | None:
    found: str | None = json.loads(b" ".join(fields)).get("server_name")
    return found
