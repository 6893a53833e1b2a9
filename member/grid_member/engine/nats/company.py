"""Company for a server that is alone: nats-server elects nobody, not even itself, without.

Each group of servers begins to elect once another server is connected to it. When all others are
gone for good none ever is, so the member connects to its own server as if it were one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Final, Self

from grid_member.engine.nats.hail import as_server

if TYPE_CHECKING:
    from types import TracebackType

    from grid_member.engine.cluster_settings import ClusterSettings

RETRY_S: Final = 0.5


class Company:
    """Connected to the own server, from when that is asked for to the end of the block."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    def keep(self, name: str) -> None:
        """Connect to the server of that name at this member's port, again and again."""
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().create_task(self._keep(name))

    async def _keep(self, name: str) -> None:
        while True:
            for host, port in self._settings.members:
                if port == self._settings.port:
                    with contextlib.suppress(OSError, TimeoutError, EOFError, ValueError):
                        await self._stay(host, name)
            await asyncio.sleep(RETRY_S)

    async def _stay(self, host: str, name: str) -> None:
        """Return when it hung up, or is another server."""
        async with as_server(self._settings, host, self._settings.port) as hear:
            while True:
                kind, words, _ = await hear()
                if kind == b"INFO" and json.loads(b" ".join(words)).get("server_name") != name:
                    return
