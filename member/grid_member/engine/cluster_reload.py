"""What a lane needs to begin with another state in place: its own fell behind the log's begin.

The log's last image and what follows it are read into a new state, while nobody is shown the old
one. What this member had on its way may be in the image, where nobody can tell its outcome.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, NamedTuple

from grid_member.engine.api import Item
from grid_member.engine.operations import Committed
from grid_member.engine.state import COUNTER_WINDOW, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grid_member.engine.log import Log


class Life(NamedTuple):
    """Which records are of this member, in this life of it."""

    member: bytes
    incarnation: int


class Loaded(NamedTuple):
    """A state that was read from a log, and what became of own records behind the image."""

    state: State
    outcomes: dict[int, Sequence[object]]
    """By the records' counters."""


class EndedError(Exception):
    """Nobody wants the state any more."""


def load(log: Log, life: Life, least: int, ended: Callable[[], bool]) -> Loaded:
    """Read a log into a new state. Blocks; for a thread.

    Args:
        log: what to read.
        life: whose records' outcomes are wanted.
        least: the lowest counter of those.
        ended: tells whether to give up.

    Raises:
        EndedError: it was given up.
    """
    loaded = Loaded(State(), {})
    loaded.state.system.changes = set()
    collecting = gc.isenabled()
    gc.disable()  # as in any replay: what is made stays
    try:
        _load(log, life, least, ended, loaded)
    finally:
        if collecting:
            gc.enable()
    loaded.state.maps.begin_grace(loaded.state.timestamp_ms)
    return loaded


def _load(log: Log, life: Life, least: int, ended: Callable[[], bool], loaded: Loaded) -> None:
    state = loaded.state
    for step in log.replay():
        if ended():
            raise EndedError
        if not isinstance(step, Committed):
            state.load(step)
            continue
        record = step.record
        outcomes = state.apply(step.sequence, step.timestamp_ms, record)
        own = record.member == life.member and record.incarnation == life.incarnation
        if own and outcomes is not None and record.counter >= least:
            loaded.outcomes[record.counter] = outcomes


def is_seen(state: State, life: Life, counter: int) -> bool:
    """Tell whether the state has applied that record."""
    mark = state.members.get(life.member)
    if mark is None or mark.incarnation < life.incarnation:
        return False
    if mark.incarnation > life.incarnation:
        return True  # or never will
    distance = mark.counter - counter
    return distance >= 0 and (distance >= COUNTER_WINDOW or bool(mark.window >> distance & 1))


def taken(state: State, member: bytes) -> set[tuple[str, int]]:
    """Return queue and identifier of what the member has in flight."""
    return {
        (name, item_id)
        for name, queue in state.queues.found.items()
        for item_id, (_, taker) in queue.in_flight.items()
        if taker == member
    }


def items(outcomes: Iterable[object]) -> Iterator[tuple[str, int]]:
    """Yield queue and identifier of the items among outcomes."""
    for outcome in outcomes:
        if isinstance(outcome, Item):
            yield outcome.queue, outcome.item_id


def keep_heard(old: State, new: State) -> None:
    """Keep what is known of this member's reads: no log has it."""
    for name, found in old.maps.found.items():
        successor = new.maps.found.get(name)
        if found.heard is not None and successor is not None:
            found.heard.keep(successor.entries)
            successor.heard = found.heard


def changed_values(old: State, new: State) -> set[str]:
    """Return the keys of the system store whose values differ."""
    before, after = old.system.found, new.system.found
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
