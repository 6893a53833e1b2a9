"""The request that all members stop: which lives it is for, and what ends it.

Its value is its id, a space, and JSON: the lives by UUID. A life that is not in it goes on, so a
member that is started again while others are still stopping does not stop with them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grid_member.cluster.notices import SHUTDOWN
from grid_member.cluster.system_store import Put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.engine.system import SystemStore


@dataclass(frozen=True, slots=True)
class ShutdownRequest:
    """A request to stop the members that there are."""

    id: str
    lives: Mapping[str, str]

    def put(self) -> Put:
        """Return what makes the request."""
        return Put(SHUTDOWN, f"{self.id} {json.dumps(self.lives)}".encode())

    def is_for(self, uuid: str, life: str) -> bool:
        """Tell whether a life is to end."""
        return self.lives.get(uuid) == life


def shutdown_request(store: SystemStore) -> ShutdownRequest | None:
    """Return the request, None when there is none."""
    value = store.system_get(SHUTDOWN)
    if value is None:
        return None
    name, _, lives = value.decode().partition(" ")
    found = {str(uuid): str(life) for uuid, life in json.loads(lives).items()}
    return ShutdownRequest(name, found)


def end_of_request() -> Put:
    """Return what ends it, once all that it was for have stopped."""
    return Put(SHUTDOWN, None)
