"""Polls of a queue whose takes a test answers, by a member that has a lease, or not."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final, cast

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.leasehold import Leasehold
from grid_member.engine.replicated.polls import ClusterPolls
from grid_member.engine.state.machine import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.shard.shard import Shard

REFUSED: Final = Refused(Reason.UNAVAILABLE, "no quorum")
ITEM: Final = Item(b"v", None, "q", 1, 2)
SHORT_S: Final = 0.02


class HandShard:
    """A shard whose takes the test answers, with one item in its queue unless that is changed."""

    def __init__(self) -> None:
        self.state = State()
        self.takes: list[Callable[[Any], None]] = []
        self.leasehold = Leasehold()
        self.refusal: Refused | None = None
        self.items = 1
        self.state.queues.size = lambda name: self.items  # type: ignore[method-assign]

    def propose(self, operation: object, answer: Callable[[Any], None], size_bytes: int) -> None:
        self.takes.append(answer)


class Leased:
    """Polls of a queue with an item, by a member that has a lease, or not."""

    def __init__(self) -> None:
        self.shard = HandShard()
        self.leasehold = self.shard.leasehold
        self.returned: list[Item] = []
        self.heard: list[object] = []
        self.polls = ClusterPolls(
            "q", asyncio.get_running_loop(), self.returned.append, lambda item: None
        )
        self.polls.shared = lambda shard: self.shard
        self.polls.ended = lambda: False
        self.unheard: Refused | None = None
        """Why nobody hears of the member, so that no lease can come."""
        self.polls.unheard = lambda: self.unheard

    def hold(self) -> None:
        """Have a lease, and let the polls hear of it."""
        self.leasehold.hold(math.inf)
        self.polls.serve_again()

    def poll(self, timeout_s: float) -> None:
        self.polls.poll(cast("Shard", self.shard), timeout_s, self.heard.append)


async def passed(seconds: float) -> None:
    """Wait until the loop has run the timers that end within that time."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()
