"""A poll that a forward server makes for a member that asks it.

That member needs time to hand the item out: the server must hold its lease for so long. As any poll
waits for a lease (ADR 0051), this one waits for one that is long enough.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.api import Item, Refused
from grid_member.engine.forward.session import SILENT_S
from grid_member.engine.leasehold import LATE, steady_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done, Poll

LEASE_PATIENCE_S: Final = 8.0
"""How long such a lease is waited for; the member that asks waits for 10 s for an outcome."""
LEASE_LOOK_S: Final = 0.1
"""How often it is looked for."""


class PollEngine(Protocol):
    """The engine as the poll of a session needs it."""

    leased_until_s: float
    """Until when the others leave this member what it takes, by `steady_s`."""

    @property
    def answering(self) -> bool:
        """Whether no shard refuses what it is asked."""

    @property
    def takes_polls(self) -> bool:
        """Whether a poll may wait; else each is refused, or ends at once."""

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""


class ServerPoll:
    """One poll; it is sent to the engine once the lease is long enough, and again if need be."""

    __slots__ = (
        "_deadline_s",
        "_done",
        "_engine",
        "_loop",
        "_name",
        "_patient_s",
        "_poll",
        "_timer",
    )

    def __init__(
        self,
        engine: PollEngine,
        name: str,
        timeout_s: float,
        done: Callable[[Item | Refused | None], None],
    ) -> None:
        self._engine = engine
        self._name = name
        self._loop = asyncio.get_running_loop()
        now_s = self._loop.time()
        self._deadline_s = now_s + timeout_s if timeout_s > 0 else 0.0
        self._done = done
        self._patient_s = max(now_s, self._deadline_s) + LEASE_PATIENCE_S
        """Until when such a lease is waited for, however often one is lacking."""
        self._poll: Poll | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Poll, or wait for a lease first."""
        self._timer = None
        engine = self._engine
        if not self._hopes() or _in_time(engine.leased_until_s):
            left_s = self._deadline_s - self._loop.time() if self._deadline_s else 0.0
            self._poll = engine.queue_poll(self._name, max(0.0, left_s), self._take_outcome)
        elif not self._waits():
            self._done(LATE)

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back to the head."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._poll is not None:
            self._poll.cancel()

    def _take_outcome(self, outcome: Item | Refused | None) -> None:
        self._poll = None
        if isinstance(outcome, Item) and self._is_too_late(outcome):
            self._engine.queue_return(outcome)
        else:
            self._done(outcome)

    def _is_too_late(self, item: Item) -> bool:
        """Tell whether an item goes back, as a longer lease may come: then that is waited for."""
        return not _in_time(item.until_s) and self._hopes() and self._waits()

    def _hopes(self) -> bool:
        """Tell whether a lease is worth waiting for; else the engine has an answer at once."""
        return self._engine.answering and self._engine.takes_polls

    def _waits(self) -> bool:
        """Look again soon; False when that went on for too long."""
        if self._loop.time() >= self._patient_s:
            return False
        self._timer = self._loop.call_later(LEASE_LOOK_S, self.begin)
        return True


def _in_time(until_s: float) -> bool:
    """Tell whether an item of a lease that ends then can still be handed out elsewhere."""
    return steady_s() + SILENT_S <= until_s
