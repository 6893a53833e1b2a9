"""Snapshots: the whole state at one sequence, as parts that can be stored and loaded in pieces.

Making one costs shallow copies only, since entries and items never change; writing it out can
then take its time while the state goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from grid_member.engine.api import ClusterState, EvictionPolicy
    from grid_member.engine.state.stored import InFlightItem, QueuedItem, StoredEntry
    from grid_member.engine.wan.agreement import Agreement, PublisherName, PublisherState
    from grid_member.engine.wan.changes import Received


TOUCHES_PER_IDLE_TIME: Final = 4
"""How often in its idle time a key that is read all the time is touched in the log."""

K = TypeVar("K", str, bytes)


class SnapshotError(EngineError):
    """The parts do not fit to each other: the snapshot is damaged; the message says what to do."""


class MemberMark(NamedTuple):
    """Which records of a member were applied: what makes a retry harmless."""

    incarnation: int
    counter: int
    """The highest counter seen of this incarnation."""
    window: int
    """Bit n says that counter - n was seen."""


class Idleness(NamedTuple):
    """How long an entry may be idle, and when it was accessed last as the log knows it."""

    idle_ms: int
    accessed_ms: int

    @property
    def precision_ms(self) -> int:
        """How much later than logged the last access may have been."""
        return self.idle_ms // TOUCHES_PER_IDLE_TIME


class SystemPart(NamedTuple):
    """The first part of a snapshot: where it was taken, and the cluster state."""

    sequence: int
    timestamp_ms: int
    cluster_state: ClusterState


class RestartStatePart(NamedTuple):
    """The cluster state that a restart begins with, where the present one is transient."""

    cluster_state: ClusterState


class SystemValuePart(NamedTuple):
    """A value of the system store; deadline_ms 0 is none."""

    key: str
    value: bytes
    deadline_ms: int


class MemberPart(NamedTuple):
    """What was seen of a member's records."""

    member: bytes
    mark: MemberMark


class EntryPart(NamedTuple):
    """A map entry; deadline_ms 0 is none."""

    name: str
    key: str
    value: bytes
    content_type: str | None
    deadline_ms: int


class TrackedEntryPart(NamedTuple):
    """An entry of a map that keeps an order of eviction, or one that may become idle.

    Those of a map with an order come in that order.
    """

    name: str
    key: str
    value: bytes
    content_type: str | None
    deadline_ms: int
    idle_ms: int
    """How long it may be idle; 0 is for ever."""
    accessed_ms: int
    policy: EvictionPolicy | None
    """Of the map's order; None when it has none."""
    hits: int


class ItemPart(NamedTuple):
    """A queue item; taker is the member that has it in flight, take_id names its take."""

    name: str
    item_id: int
    value: bytes
    content_type: str | None
    taker: bytes | None
    take_id: int
    """0 when it is not in flight, and in snapshots that did not name it yet."""


StateMark: TypeAlias = tuple["PublisherName", bytes, "PublisherState"]
"""A publisher, a member, and the state that was set."""
QueueMark: TypeAlias = tuple["PublisherName", bytes, int, int, bytes]
"""A publisher, the member and place of a clear that waits, 0 for none, the map's gaps, and the job
that takes care of those there were when it began, empty without one."""


class WanPart(NamedTuple):
    """What the state knows of WAN replication as a whole; it comes before all maps."""

    clock: int
    agreement: Agreement | None
    states: tuple[StateMark, ...]


class ForgottenPart(NamedTuple):
    """Up to which stamp a change of a map of which nothing is known may be older than a removal."""

    stamp: int


class WanMapPart(NamedTuple):
    """A replicated map; it comes before the map's entries."""

    name: str
    floor: int
    cleared: int
    cleared_passed: tuple[bytes, ...]
    purged: int
    ambiguous: int
    received: Received
    queues: tuple[QueueMark, ...]


class StampPart(NamedTuple):
    """The stamp of an entry, and the clusters that its change has passed."""

    name: str
    key: str
    stamp: int
    passed: tuple[bytes, ...]


class TombstonePart(NamedTuple):
    """The stamp of a removed key, and the clusters that the removal has passed."""

    name: str
    key: str
    stamp: int
    passed: tuple[bytes, ...]


class QueuedPart(NamedTuple):
    """A key in the queue of a publisher and member; those of a queue come in its order."""

    name: str
    publisher: PublisherName
    member: bytes
    key: str
    place: int


Part: TypeAlias = (
    SystemPart
    | RestartStatePart
    | SystemValuePart
    | MemberPart
    | EntryPart
    | TrackedEntryPart
    | ItemPart
    | WanPart
    | ForgottenPart
    | WanMapPart
    | StampPart
    | TombstonePart
    | QueuedPart
)


Level: TypeAlias = tuple[int, list[str]]
"""Keys that follow each other in an order of eviction, and the hits that each of them has."""


class MapSnapshot(NamedTuple):
    """Copies of what a map holds."""

    entries: dict[str, StoredEntry]
    deadlines: dict[str, int]
    idle: dict[str, Idleness]
    policy: EvictionPolicy | None
    order: list[Level]
    """Every key in the order of eviction, when there is a policy."""


class WanMapSnapshot(NamedTuple):
    """Copies of what a replicated map holds beside its entries."""

    marks: WanMapPart
    stamps: dict[str, int]
    tombstones: dict[str, int]
    passed: dict[str, tuple[bytes, ...]]
    queues: dict[PublisherName, dict[bytes, dict[str, int]]]


class WanSnapshot(NamedTuple):
    """Copies of all that a state holds for WAN replication."""

    whole: WanPart
    maps: dict[str, WanMapSnapshot]
    forgotten: int = 0
    """As of `ForgottenPart`; 0 when no map's part was forgotten."""


NO_WAN: Final = WanSnapshot(WanPart(0, None, ()), {})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Shallow copies of everything a state holds."""

    sequence: int
    timestamp_ms: int
    cluster_state: ClusterState
    restart_state: ClusterState
    system: Mapping[str, tuple[bytes, int]]
    """Values of the system store and their deadlines."""
    members: dict[bytes, MemberMark]
    maps: dict[str, MapSnapshot]
    queues: dict[str, tuple[list[QueuedItem], list[InFlightItem]]]
    wan: WanSnapshot


def parts(snapshot: Snapshot, *, ordered: bool = False) -> Iterator[Part]:
    """Yield the parts of a snapshot, the system part first; ordered makes them canonical.

    The entries of a map always come in an order that it keeps: that of eviction, or else that in
    which they were first written, in which a later order of eviction begins.
    """
    yield SystemPart(snapshot.sequence, snapshot.timestamp_ms, snapshot.cluster_state)
    if snapshot.restart_state is not snapshot.cluster_state:
        yield RestartStatePart(snapshot.restart_state)
    for key in _maybe_sorted(snapshot.system, ordered=ordered):
        yield SystemValuePart(key, *snapshot.system[key])
    for member in _maybe_sorted(snapshot.members, ordered=ordered):
        yield MemberPart(member, snapshot.members[member])
    wan = snapshot.wan
    if wan != NO_WAN:
        yield wan.whole
    if wan.forgotten:
        yield ForgottenPart(wan.forgotten)
    replicated = _maybe_sorted(wan.maps, ordered=ordered)
    for name in replicated:
        yield wan.maps[name].marks
    for name in _maybe_sorted(snapshot.maps, ordered=ordered):
        yield from _entries(name, snapshot.maps[name])
    for name in replicated:
        yield from _replicated(name, wan.maps[name], ordered=ordered)
    for name in _maybe_sorted(snapshot.queues, ordered=ordered):
        yield from _items(name, *snapshot.queues[name], ordered=ordered)


def _items(
    name: str, items: list[QueuedItem], in_flight: list[InFlightItem], *, ordered: bool
) -> Iterator[ItemPart]:
    for item in items:
        yield ItemPart(name, *item, None, 0)
    for item, taker, take_id in sorted(in_flight, key=_item_id) if ordered else in_flight:
        yield ItemPart(name, *item, taker, take_id)


def _entries(name: str, found: MapSnapshot) -> Iterator[EntryPart | TrackedEntryPart]:
    entries, deadlines, idle, policy, order = found
    for hits, keys in order if policy is not None else [(1, list(entries))]:
        for key in keys:
            stored, deadline_ms = entries[key], deadlines.get(key, 0)
            value, content_type = (stored, None) if isinstance(stored, bytes) else stored
            if policy is None and key not in idle:
                yield EntryPart(name, key, value, content_type, deadline_ms)
            else:
                idle_ms, accessed_ms = idle.get(key, (0, 0))
                yield TrackedEntryPart(
                    name, key, value, content_type, deadline_ms, idle_ms, accessed_ms, policy, hits
                )


def _replicated(
    name: str, found: WanMapSnapshot, *, ordered: bool
) -> Iterator[StampPart | TombstonePart | QueuedPart]:
    _, stamps, tombstones, passed, queues = found
    for key, stamp in stamps.items():
        yield StampPart(name, key, stamp, passed.get(key, ()))
    for key, stamp in tombstones.items():
        yield TombstonePart(name, key, stamp, passed.get(key, ()))
    for publisher, by_member in queues.items():
        for member in _maybe_sorted(by_member, ordered=ordered):
            for key, place in by_member[member].items():
                yield QueuedPart(name, publisher, member, key, place)


def _item_id(item: InFlightItem) -> int:
    return item[0][0]


def _maybe_sorted(names: Iterable[K], *, ordered: bool) -> Iterable[K]:
    return sorted(names) if ordered else names
