"""Images: the whole state at one sequence, as parts that can be stored and loaded in pieces.

Making one costs shallow copies only, since entries and items never change; writing it out can
then take its time while the state goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grid_member.engine.api import ClusterState, Entry, Item

K = TypeVar("K", str, bytes)


class MemberMark(NamedTuple):
    """Which records of a member were applied: what makes a retry harmless."""

    incarnation: int
    counter: int
    """The highest counter seen of this incarnation."""
    window: int
    """Bit n says that counter - n was seen."""


class SystemPart(NamedTuple):
    """The first part of an image: where it was taken, and the cluster state."""

    sequence: int
    timestamp_ms: int
    cluster_state: ClusterState


class MemberPart(NamedTuple):
    """What was seen of a member's records."""

    member: bytes
    mark: MemberMark


class EntryPart(NamedTuple):
    """A map entry; deadline_ms 0 is none."""

    name: str
    key: str
    entry: Entry
    deadline_ms: int


class ItemPart(NamedTuple):
    """A queue item; taker is the member that has it in flight."""

    name: str
    item_id: int
    value: bytes
    content_type: str | None
    taker: bytes | None


Part: TypeAlias = SystemPart | MemberPart | EntryPart | ItemPart


@dataclass(frozen=True, slots=True)
class Image:
    """Shallow copies of everything a state holds."""

    sequence: int
    timestamp_ms: int
    cluster_state: ClusterState
    members: dict[bytes, MemberMark]
    maps: dict[str, tuple[dict[str, Entry], dict[str, int]]]
    queues: dict[str, tuple[list[Item], list[tuple[Item, bytes]]]]


def parts(image: Image, *, ordered: bool = False) -> Iterator[Part]:
    """Yield the parts of an image, the system part first; ordered makes them canonical."""
    yield SystemPart(image.sequence, image.timestamp_ms, image.cluster_state)
    for member in _maybe_sorted(image.members, ordered=ordered):
        yield MemberPart(member, image.members[member])
    for name in _maybe_sorted(image.maps, ordered=ordered):
        entries, deadlines = image.maps[name]
        for key in _maybe_sorted(entries, ordered=ordered):
            yield EntryPart(name, key, entries[key], deadlines.get(key, 0))
    for name in _maybe_sorted(image.queues, ordered=ordered):
        items, in_flight = image.queues[name]
        for item in items:
            yield ItemPart(name, item.item_id, item.value, item.content_type, None)
        for item, taker in sorted(in_flight, key=_item_id) if ordered else in_flight:
            yield ItemPart(name, item.item_id, item.value, item.content_type, taker)


def _item_id(flight: tuple[Item, bytes]) -> int:
    return flight[0].item_id


def _maybe_sorted(names: Iterable[K], *, ordered: bool) -> Iterable[K]:
    return sorted(names) if ordered else names
