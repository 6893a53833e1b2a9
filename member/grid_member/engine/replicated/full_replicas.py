"""Who holds all of the data where there are more than five members: agreed on in the first shard.

    host/<uuid>    this member has all shards, or is about to have them

A key is a seat, and there are five. The log decides who was first: whoever finds five others as
its own key comes back takes it away again. Seats are kept by renewing them, and end by themselves
with the members that had them. That one too many holds everything, or a while one too few, does no
harm: nothing but who answers depends on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS
from grid_member.engine.io.ending import STOPPING, do_unless_ended
from grid_member.engine.jetstream.retry import LONGEST_S, await_growth, longer
from grid_member.engine.local.system import ignore
from grid_member.engine.nats.client.errors import NatsError, ShortError
from grid_member.engine.state.operations import SystemPut, SystemRemove

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Refused
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard

SEAT_PREFIX: Final = "host/"
"""Begins the keys of seats in the system store."""
SEAT_MS: Final = 20_000
"""How long a seat is kept for a member that does not renew it."""
RENEW_S: Final = 5.0
FREE_SEAT_S: Final = 10.0
"""How long a seat is free until a member that runs takes it: who had it may be starting again, and
after an outage of the majority all have to be renewed."""
RETRY_S: Final = 0.5


class Seats:
    """The seats, as one member sees them."""

    def __init__(
        self, shard: ReplicatedShard, items: Callable[[str], list[tuple[str, bytes]]], own: str
    ) -> None:
        """Have none; items returns living values of the system store by the begin of their keys."""
        self._shard = shard
        self._items = items
        self._own = SEAT_PREFIX + own
        self._free_s: float | None = None
        """Since when there was one for this member, if there is."""

    @property
    def free(self) -> bool:
        """Whether there is a seat for this member."""
        return self._others() < MAX_FULL_REPLICAS

    def is_long_free(self, now_s: float) -> bool:
        """Tell whether there has been a seat for this member for so long that it takes it."""
        if not self.free or not self._shard.in_contact:
            self._free_s = None
        elif self._free_s is None:
            self._free_s = now_s
        return self._free_s is not None and now_s - self._free_s >= FREE_SEAT_S

    async def take(self) -> bool:
        """Take a seat, or keep the one that there is; tell whether this member has it now."""
        if not self.free:
            return False
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answer(refused: Refused | None) -> None:
            # The state is the one right behind the own record: all see the same order.
            if not outcome.done():
                outcome.set_result(refused is None and self.free)

        self._shard.propose_system(SystemPut(self._own, b"", SEAT_MS), answer, len(self._own))
        has_it = await outcome
        if not has_it:
            self.leave()
        return has_it

    def leave(self) -> None:
        """Give the seat to somebody else."""
        self._free_s = None
        self._shard.propose_system(SystemRemove(self._own), ignore, len(self._own))

    def _others(self) -> int:
        return sum(key != self._own for key, _ in self._items(SEAT_PREFIX))


def initial_shards(settings: ClusterSettings, shards: int, streams: int) -> list[int]:
    """Return the numbers of the shards that a member begins with, of so many durable ones."""
    if settings.lite:
        return [0]
    return [0, *range(shards, streams)] if settings.crowded else list(range(streams))


async def read_shard(
    make: Callable[[], ReplicatedShard],
    ended: asyncio.Event,
    report: Callable[[NatsError], None],
    client: NatsClient,
    patience_s: float = math.inf,
) -> ReplicatedShard:
    """Return a shard brought up to what its stream holds, and not started.

    Args:
        make: makes it.
        ended: is set when the member stops, which does not wait for it.
        report: hears why it cannot be read now, each time.
        client: connected to the member's own server.
        patience_s: how long it is tried again while it cannot be read.

    Raises:
        EngineError: what is stored is damaged, or cannot be read for so long, or the member stops.
    """
    until_s, short_s = time.monotonic() + patience_s, RETRY_S
    while not ended.is_set():
        shard = make()
        try:
            await do_unless_ended(ended, shard.read())
        except NatsError as error:
            report(error)
            if (left_s := until_s - time.monotonic()) < 0:
                raise EngineError(f"a part of the data cannot be read now: {error}") from None
            if not isinstance(error, ShortError):
                await asyncio.sleep(RETRY_S)
                continue
            with contextlib.suppress(TimeoutError):
                waiting = await_growth(client, error, short_s)
                await do_unless_ended(ended, asyncio.wait_for(waiting, min(left_s, LONGEST_S)))
            short_s = longer(short_s)
        else:
            return shard
    raise EngineError(STOPPING)
