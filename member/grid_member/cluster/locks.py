"""Locks of the whole cluster, in the system store: each contender has a key of its own.

Whoever finds no other contender, once its own key is applied, has the lock: of two keys the log
has one first, and whoever wrote the other sees that. Among contenders that see each other the
lowest UUID stays and the others step back. What a life holds that has ended counts no more.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.cluster.notices import NOTICE
from grid_member.cluster.system_store import Put, carry_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grid_member.cluster.conditions import Conditions
    from grid_member.cluster.roll import Roll
    from grid_member.engine.api import Refused
    from grid_member.engine.system import SystemStore

LOCK: Final = "lock/"
CHANGE: Final = "change"
"""Of the cluster's state, version and list of members."""
CONFIG: Final = "config"
"""Of the configuration that is added while the cluster runs."""


class LockedError(Exception):
    """Another member has the lock, or the log takes nothing now."""

    def __init__(self, refused: Refused | None = None) -> None:
        super().__init__("another member has the lock")
        self.refused = refused
        """Why the log did not take what was needed; None when another member has the lock."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Who has a lock or wants it."""

    uuid: str
    life: str
    purpose: str


class Locks:
    """The locks as one member takes them."""

    def __init__(
        self,
        store: SystemStore,
        roll: Roll,
        conditions: Conditions,
        own: Callable[[], tuple[str, str]],
    ) -> None:
        """Take this member's UUID and life, which may change."""
        self._store = store
        self._roll = roll
        self._conditions = conditions
        self._own = own
        self._mine: set[str] = set()

    def contenders(self, name: str) -> list[Contender]:
        """Return those whose lives go on that have a lock or want it."""
        prefix = f"{LOCK}{name}/"
        found: list[Contender] = []
        for key, value in self._store.system_items(prefix):
            content = json.loads(value)
            uuid, life = key.removeprefix(prefix), str(content["life"])
            lease = self._roll.lease(uuid)
            if lease is not None and lease.life == life:
                found.append(Contender(uuid, life, str(content["purpose"])))
        return found

    @contextlib.asynccontextmanager
    async def held(
        self, name: str, purpose: str, patience_s: float | None = 0.0
    ) -> AsyncIterator[None]:
        """Have the lock; patience None is no limit.

        Raises:
            LockedError: it could not be had in time.
        """
        if not await self._conditions.until(lambda: name not in self._mine, patience_s):
            raise LockedError
        self._mine.add(name)
        try:
            await self._take(name, purpose, patience_s)
            yield
        finally:
            self._mine.discard(name)
            self._remove(name)
            self._conditions.look()

    def tidy(self) -> None:
        """Remove what is left of locks that this member does not have any more."""
        own = self._own()[0]
        for key, _ in self._store.system_items(LOCK):
            name, _, uuid = key.removeprefix(LOCK).rpartition("/")
            if uuid == own and name not in self._mine:
                self._remove(name)

    async def _take(self, name: str, purpose: str, patience_s: float | None) -> None:
        uuid, life = self._own()
        content = json.dumps({"life": life, "purpose": purpose}).encode()
        put = Put(f"{LOCK}{name}/{uuid}", content)
        while True:
            refused = (await carry_out(put.begin(self._store)))[0]
            if refused is not None:
                raise LockedError(refused)
            # The lowest stays, and has the lock when the others are done or have stepped back.
            await self._conditions.until(
                lambda: self._alone(name) or not self._first(name), patience_s
            )
            if self._alone(name) and self._store.system_get(put.key) is not None:
                return
            self._remove(name)
            if not await self._conditions.until(lambda: not self._others(name), patience_s):
                raise LockedError

    def _others(self, name: str) -> list[str]:
        own = self._own()[0]
        return [found.uuid for found in self.contenders(name) if found.uuid != own]

    def _alone(self, name: str) -> bool:
        return not self._others(name)

    def _first(self, name: str) -> bool:
        return self._own()[0] < min(self._others(name))

    def _remove(self, name: str) -> None:
        Put(f"{LOCK}{name}/{self._own()[0]}", None).begin(self._store)(_ignore)


def removed_with(store: SystemStore, uuid: str) -> list[Put]:
    """Return what removes the locks and notices of a member whose life has ended."""
    items = (*store.system_items(LOCK), *store.system_items(NOTICE))
    return [Put(key, None) for key, _ in items if key.rpartition("/")[2] == uuid]


def _ignore(outcome: object) -> None:
    """What was not removed now is removed by `tidy`."""
