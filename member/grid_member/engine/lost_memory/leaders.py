"""Whether the logs in memory are there, and since when none of their servers leads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_member.engine.lost_memory.own_copies import leader_of
from grid_member.engine.nats.admin.streams import NoStreamError, ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient

LEADERLESS_S: Final = 12.0
"""How long a log may be without a leader until none is expected. Elections take up to nine."""


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
