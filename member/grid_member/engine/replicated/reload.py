"""What a shard needs to begin with another state in place: its own fell behind the log's begin.

The log's last snapshot and what follows it are read into a new state, while nobody is shown the old
one. What this member had on its way may be in the snapshot, where nobody can tell its outcome.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.api import EngineError, Item, Reason, Refused
from grid_member.engine.jetstream.retry import longer
from grid_member.engine.log.log import graced_until_ms
from grid_member.engine.nats.client.errors import NatsError, ShortError, describe_unexpected
from grid_member.engine.shard.shard import without_collection
from grid_member.engine.state.machine import COUNTER_WINDOW, State
from grid_member.engine.state.operations import Committed, QueueReturn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from grid_member.engine.log.log import Log, Steps
    from grid_member.engine.replicated.shared_log import SharedLog

RELOAD_S: Final = 0.2
"""Until a log that could not be read is read again."""
RELOAD_SHORT_S: Final = 1.0
"""The same when it is not, or not all of, the log that was read before: nothing goes into it. Each
time longer when that is found as it is read."""
RELOAD_FAILED_S: Final = 5.0
"""The same when what went wrong was not to be expected."""
GONE: Final = Refused(
    Reason.UNAVAILABLE, "the other members took this one for gone: it begins anew"
)
UNKNOWN: Final = Refused(
    Reason.UNAVAILABLE, "this member lost touch: what was asked for may or may not be done"
)
_log: Final = logging.getLogger("grid.engine")


class MemberIncarnation(NamedTuple):
    """Which records are of this member, in this incarnation of it."""

    member: bytes
    incarnation: int


class LoadedState(NamedTuple):
    """A state that was read from a log, and what became of own records behind the snapshot."""

    state: State
    outcomes: dict[int, Sequence[object]]
    """By the records' counters."""


class EndedError(Exception):
    """Nobody wants the state any more."""


async def read_again(log: SharedLog, read: Callable[[], Awaitable[None]]) -> bool:
    """Read a log again until that works; return False when it never will."""
    short_s = RELOAD_SHORT_S
    while True:
        try:
            await read()
        except ShortError as error:
            log.distrust(error)
            await log.await_growth(error, short_s)
            short_s = longer(short_s)
        except NatsError as error:
            _log.debug("shard %d is read again: %s", log.shard, error)
            await asyncio.sleep(RELOAD_S)
        except EngineError as error:
            log.fail(error)
            return False
        except EndedError:
            return False
        except Exception as error:
            _log.error("shard %d could not be read: %s", log.shard, describe_unexpected(error))
            await asyncio.sleep(RELOAD_FAILED_S)
        else:
            return True


def load(
    log: Log,
    incarnation: MemberIncarnation,
    least: int,
    ended: Callable[[], bool],
    empty: Callable[[], State] = State,
) -> LoadedState:
    """Read a log into a new state, with the outcomes of own records from a counter on. Blocks.

    Raises:
        EndedError: it was given up.
    """
    loaded = LoadedState(empty(), {})
    loaded.state.system.changes = set()
    with without_collection():
        _load(log, incarnation, least, ended, loaded)
    loaded.state.maps.begin_grace(graced_until_ms(log, loaded.state.timestamp_ms))
    return loaded


def _load(
    log: Log,
    incarnation: MemberIncarnation,
    least: int,
    ended: Callable[[], bool],
    loaded: LoadedState,
) -> None:
    state = loaded.state
    for step in wanted_steps(log.replay(), ended):
        if not isinstance(step, Committed):
            state.load(step)
            continue
        record = step.record
        outcomes = state.apply(step.sequence, step.timestamp_ms, record)
        own = record.member == incarnation.member and record.incarnation == incarnation.incarnation
        if own and outcomes is not None and record.counter >= least:
            loaded.outcomes[record.counter] = outcomes


def wanted_steps(steps: Steps, ended: Callable[[], bool]) -> Steps:
    """Yield what is read of a log.

    Raises:
        EndedError: it was given up.
    """
    with closing(steps):
        for step in steps:
            if ended():
                raise EndedError
            yield step


def is_seen(state: State, incarnation: MemberIncarnation, counter: int) -> bool:
    """Tell whether the state has applied that record."""
    mark = state.members.get(incarnation.member)
    if mark is None or mark.incarnation < incarnation.incarnation:
        return False
    if mark.incarnation > incarnation.incarnation:
        return True  # or never will
    distance = mark.counter - counter
    return distance >= 0 and (distance >= COUNTER_WINDOW or bool(mark.window >> distance & 1))


def items_in_flight(state: State, member: bytes) -> set[QueueReturn]:
    """Return what gives back each item that the member has in flight."""
    return {
        QueueReturn(name, item_id, take_id)
        for name, queue in state.queues.by_name.items()
        for item_id, (_, taker, take_id) in queue.in_flight.items()
        if taker == member
    }


def returns(outcomes: Iterable[object]) -> Iterator[QueueReturn]:
    """Yield what gives back each of the items among outcomes."""
    for outcome in outcomes:
        if isinstance(outcome, Item):
            yield QueueReturn(outcome.queue, outcome.item_id, outcome.take_id)


def keep_local_reads(old: State, new: State) -> None:
    """Keep what is known of this member's reads: no log has it."""
    for name, found in old.maps.by_name.items():
        successor = new.maps.by_name.get(name)
        if found.local_reads is not None and successor is not None:
            found.local_reads.keep(successor.entries)
            successor.local_reads = found.local_reads


def changed_values(old: State, new: State) -> set[str]:
    """Return the keys of the system store whose values differ."""
    before, after = old.system.by_key, new.system.by_key
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
