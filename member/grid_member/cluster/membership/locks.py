"""Locks of the whole cluster, in the system store: `lock/<name>/<contender>/<id of the attempt>`.

Whoever finds no other contender, once its own key is applied and counts, has the lock: of two keys
the log has one first, and whoever wrote the other sees that. Among contenders that see each other
the lowest UUID stays and the others step back. A key counts while the incarnation that wrote it has
a lease, for others as for its writer. No key is written twice: records of a member may be stored in
another order than it sent them, and the end of one attempt must not be that of the next.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.broadcast_barrier import BARRIER
from grid_member.cluster.membership.failure_detector import RENEW_S
from grid_member.cluster.values.system_store import Put, put_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.api import Refused
    from grid_member.engine.state.system import SystemStore

LOCK: Final = "lock/"
CHANGE: Final = "change"
"""Of the cluster's state, version, list of members, and configuration that is added."""
CONTEST_S: Final = RENEW_S
"""How long the lowest of the contenders waits for the others to step back and for its own lease,
also without patience: of two that come at once one has the lock."""


class LockedError(Exception):
    """Another member has the lock, or the log takes nothing now."""

    def __init__(self, refusal: Refused | None = None) -> None:
        super().__init__("another member has the lock")
        self.refusal = refusal
        """Why the log did not take what was needed; None when another member has the lock."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Who has a lock or wants it."""

    uuid: str
    incarnation: str
    purpose: str


class Locks:
    """The locks as one member takes them."""

    def __init__(self, membership: Membership) -> None:
        self._store = membership.engine
        self._member_table = membership.member_table
        self._conditions = membership.conditions
        self._own_incarnation = membership.own_incarnation
        self._new_id = membership.new_id
        self._attempts: dict[str, str | None] = {}
        """The key of the attempt that goes on, by the lock's name; None between two attempts."""

    def contenders(self, name: str) -> list[Contender]:
        """Return those whose incarnations go on that have a lock or want it."""
        found: list[Contender] = []
        for key, value in self._store.system_items(f"{LOCK}{name}/"):
            content = json.loads(value)
            uuid, incarnation = _uuid_of(key), str(content["life"])
            if self._member_table.has_lease(uuid, incarnation):
                found.append(Contender(uuid, incarnation, str(content["purpose"])))
        return found

    @contextlib.asynccontextmanager
    async def hold(
        self, name: str, purpose: str, patience_s: float | None = 0.0
    ) -> AsyncIterator[None]:
        """Have the lock; patience None is no limit.

        Raises:
            LockedError: it could not be had in time.
        """
        # All that wait here are woken at once, and somebody who has not waited may have been first.
        while name in self._attempts:
            if not await self._conditions.until(lambda: name not in self._attempts, patience_s):
                raise LockedError
        self._attempts[name] = None
        try:
            await self._take(name, purpose, patience_s)
            yield
        finally:
            self._step_back(name)
            del self._attempts[name]
            self._conditions.look()

    def tidy(self) -> None:
        """Remove what is left of locks that this member does not have any more."""
        own, mine = self._own_incarnation()[0], set(self._attempts.values())
        for key, _ in self._store.system_items(LOCK):
            if _uuid_of(key) == own and key not in mine:
                self._remove(key)

    async def _take(self, name: str, purpose: str, patience_s: float | None) -> None:
        contest_s = None if patience_s is None else max(patience_s, CONTEST_S)
        while True:
            uuid, incarnation = self._own_incarnation()
            key = f"{LOCK}{name}/{uuid}/{self._new_id()}"
            self._attempts[name] = key
            content = json.dumps({"life": incarnation, "purpose": purpose}).encode()
            refused = await put_all(self._store, [Put(key, content)])
            if refused is not None:
                raise LockedError(refused)
            # The lowest stays, and has the lock when the others are done or have stepped back.
            await self._conditions.until(partial(self._is_decided, name, incarnation), contest_s)
            if self._is_held(name, incarnation):
                return
            self._step_back(name)
            free = await self._conditions.until(lambda: not self._others(name), patience_s)
            if not free or self._conditions.ended:
                raise LockedError

    def _is_decided(self, name: str, incarnation: str) -> bool:
        own = self._own_incarnation()[0]
        return self._is_held(name, incarnation) or any(one < own for one in self._others(name))

    def _is_held(self, name: str, incarnation: str) -> bool:
        """Tell whether the present attempt of an incarnation has the lock, for the others, too."""
        if self._others(name) or self._store.system_get(self._attempts[name] or "") is None:
            return False
        uuid, present = self._own_incarnation()
        return incarnation == present and self._member_table.has_lease(uuid, incarnation)

    def _others(self, name: str) -> list[str]:
        own = self._own_incarnation()[0]
        return [found.uuid for found in self.contenders(name) if found.uuid != own]

    def _step_back(self, name: str) -> None:
        key, self._attempts[name] = self._attempts[name], None
        if key is not None:
            self._remove(key)

    def _remove(self, key: str) -> None:
        Put(key, None).send(self._store)  # `tidy` sends again what the log refuses


def removal_puts(store: SystemStore, uuid: str, incarnation: str) -> list[Put]:
    """Return what removes the locks and barriers of a member's incarnation that has ended."""
    locks = [
        key
        for key, value in store.system_items(LOCK)
        if _uuid_of(key) == uuid and json.loads(value)["life"] == incarnation
    ]
    barriers = [key for key, _ in store.system_items(BARRIER) if key.rpartition("/")[2] == uuid]
    return [Put(key, None) for key in (*locks, *barriers)]


def _uuid_of(key: str) -> str:
    return key.rsplit("/", 2)[1]
