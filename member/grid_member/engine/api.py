"""What the engine offers to its callers: the names, the outcomes and the promises.

An operation takes a callback and calls it exactly once, possibly before it returns (a read, a
refusal) and always on the event loop's thread. A write's callback comes when the write is as safe
as the configuration promises: applied in memory, or fsynced. Callbacks must not raise.

Errors are values, not exceptions: a callback receives either the outcome or a `Refused`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class Reason(enum.Enum):
    """Why an operation was not carried out. Nothing has changed when one of these comes back."""

    NOT_CONFIGURED = "not-configured"
    """No map or queue configuration matches the name: 404 for the client."""
    PASSIVE = "passive"
    """The cluster state refuses writes: 503."""
    UNAVAILABLE = "unavailable"
    """The log cannot take writes now (disk full, I/O error): 503, worth retrying."""
    OVERLOADED = "overloaded"
    """Too many operations wait already: 503, worth retrying."""
    CLOSING = "closing"
    """The member is stopping: 503."""
    CLOCK_AHEAD = "clock-ahead"
    """A change of another cluster whose stamp is too far ahead of this cluster's time."""
    FAILED = "failed"
    """It met with an error that nobody expected, which the log tells: 500, of a read only."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that was not carried out, with a message for the log and `X-Grid-Error`.

    The message never holds a key or a value.
    """

    reason: Reason
    message: str


# Not frozen, unlike other values: that would make making one, with every read, cost four times as
# much.


@dataclass(slots=True, unsafe_hash=True, init=False)
class Entry:
    """A map entry's value in bytes and its content type as it was sent, None when none was."""

    value: bytes
    content_type: str | None

    # By hand, as with `Item`.
    def __init__(self, value: bytes, content_type: str | None) -> None:
        self.value = value
        self.content_type = content_type


@dataclass(slots=True, unsafe_hash=True, init=False)
class Item:
    """A queue item taken by a poll: in flight until it is confirmed or returned."""

    value: bytes
    content_type: str | None
    queue: str
    item_id: int
    """Made from its place in the log; grows from offer to offer, unique in its queue for ever."""
    take_id: int
    """Made from the place of its take in the log: tells this delivery from any other."""
    until_s: float = field(default=math.inf, compare=False)
    """By `steady_s`: somebody else may have it from then on, so it is handed out before."""

    # By hand: one that is made for it is not compiled with the rest, and one is made for each poll.
    def __init__(
        self,
        value: bytes,
        content_type: str | None,
        queue: str,
        item_id: int,
        take_id: int,
        until_s: float = math.inf,
    ) -> None:
        self.value = value
        self.content_type = content_type
        self.queue = queue
        self.item_id = item_id
        self.take_id = take_id
        self.until_s = until_s


Done: TypeAlias = Callable[[T | Refused], None]


class DataOrigin(enum.Enum):
    """Where the stored data of a cluster came from, as a start found it."""

    OWN = "own"
    """The cluster began empty."""
    BACKUP = "backup"
    """An earlier start, or another member, brought a backup in."""
    IMPORTED = "imported"
    """This start brought the data of a backup in."""


class ClusterState(enum.Enum):
    """The states of interface section "States", named as the management endpoints write them."""

    ACTIVE = "active"
    NO_MIGRATION = "no_migration"
    FROZEN = "frozen"
    PASSIVE = "passive"
    IN_TRANSITION = "in_transition"


class EvictionPolicy(enum.Enum):
    """Which entries a map that holds too much gives up first."""

    LRU = "LRU"
    """The one that was neither written nor read for the longest time."""
    LFU = "LFU"
    """The one written and read least often; among those, as LRU."""
    RANDOM = "RANDOM"
    """Any, all alike."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """How much a map may hold, and what goes when a put makes it hold more."""

    policy: EvictionPolicy
    max_entries: int = 0
    """Entries; 0 is no limit."""
    max_bytes: int = 0
    """Bytes of keys, as UTF-8, and values; 0 is no limit."""


@dataclass(frozen=True, slots=True)
class MapSettings:
    """What the state machine must know of a map's configuration."""

    time_to_live_s: int = 0
    """Seconds after the last write until an entry is gone; 0 is never."""
    max_idle_s: int = 0
    """Seconds after the last write or read until an entry is gone; 0 is never."""
    eviction: Eviction | None = None
    """None keeps whatever is written."""
    persistent: bool = True
    """Kept in the log when the engine has a directory."""
    fsync: bool = True
    """A write is answered only after fsync; without it, after the log's write."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What the state machine must know of a queue's configuration."""

    max_size: int = 2**31 - 1
    """Items; an offer beyond it is answered with False."""
    persistent: bool = True
    fsync: bool = True


Persistence: TypeAlias = Mapping[str, Mapping[str, bool]]
"""By `map` and `queue`, then by configured name: whether what it means is persistent."""


class Structures(Protocol):
    """Finds the settings of a structure: exact name, then wildcard, then `default`, else None."""

    def map_settings(self, name: str) -> MapSettings | None:
        """Return the settings of the map called name, None when nothing matches."""

    def queue_settings(self, name: str) -> QueueSettings | None:
        """Return the settings of the queue called name, None when nothing matches."""

    def persistence(self) -> Persistence:
        """Return which of all that is configured is persistent."""


class Poll(Protocol):
    """A queue poll that may be waiting."""

    def cancel(self) -> None:
        """Stop waiting; the callback is not called any more. Does nothing when it was.

        An item that is already on its way to a cancelled poll goes back to the head.
        """


class Engine(Protocol):
    """Maps, queues and system state over a log. All methods belong to one event loop."""

    async def start(self, replayed: Callable[[], None] | None = None) -> None:
        """Open the log and replay it; serve from then on.

        What `replay_log` does comes before anything is done with the stored data.

        Raises:
            EngineError: the directory is locked, foreign, of a newer format or damaged.
        """

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""

    @property
    def waiting(self) -> str | None:
        """Why the start is not over yet; None when no other member is waited for."""

    def end_waiting(self) -> None:
        """End a start that waits for other members."""

    def end_polls(self) -> None:
        """End waiting polls with None, and let none wait from now on: the member stops soon."""

    def hurry(self) -> None:
        """Wait no more for a disk that does not tell what became of a commit: for a stop."""

    @property
    def ready(self) -> bool:
        """True between the end of start() and the begin of stop()."""

    @property
    def directory_lost(self) -> str | None:
        """Why nothing that is written now lasts: the member's directory was removed or replaced.

        None while it is there, and where nothing is kept.
        """

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""

    def map_peek(self, name: str, key: str) -> bytes | tuple[bytes, str] | None:
        """Return a value, with its content type if it has one, when it can be had at once.

        None says nothing: `map_get` tells whether there is a mapping.
        """

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""

    @property
    def cluster_state(self) -> ClusterState:
        """The present cluster state, as applied."""

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        """Set the cluster state; False when it was that already.

        It survives restarts, unless it is transient: those begin with the one set before.
        """

    @property
    def member_uuid(self) -> str:
        """This member's UUID; the same after a restart on the same directory."""


class EngineError(Exception):
    """The engine cannot start or go on; the message says what to do."""


class NotYetError(EngineError):
    """It is not done yet, as something is missing for a moment: to ask again does the rest."""
