"""Judges what clients of a cluster have seen, whatever happened to its members meanwhile.

Keys are registers: every value is written once, so a history can be explained by some order of its
operations exactly when the zones of its values allow it (Gibbons and Korach, "Testing shared
memories"). Items of a queue are offered once each: what was answered is delivered, once but for the
windows that a crash opens, and in the order in which its producer offered.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOTHING: Final = ""
"""What a key reads as that was never written."""
CRASH_WINDOW_S: Final = 12.0
"""How long a confirm may be on its way: as long as an election, with what waits for it."""


class Write(NamedTuple):
    """A value put under a key."""

    key: str
    value: str
    begun_s: float
    ended_s: float
    """Infinite when nobody knows whether it was done or will be."""


class Read(NamedTuple):
    """A value got from a key."""

    key: str
    value: str
    begun_s: float
    ended_s: float
    member: int


class Offer(NamedTuple):
    """An item offered by a producer, which gives its items rising numbers."""

    producer: str
    number: int
    begun_s: float
    ended_s: float
    """Infinite when nobody knows whether it was taken or will be."""


class Delivery(NamedTuple):
    """An item that a client has whole."""

    producer: str
    number: int
    begun_s: float
    ended_s: float
    member: int


class Span(NamedTuple):
    """A member was gone, or a poll of it was without an outcome."""

    member: int
    begun_s: float
    ended_s: float


@dataclass
class History:
    """Everything that clients did and saw."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    crashes: list[Span] = field(default_factory=list)
    """When members were killed, stopped, or taken for gone."""
    lost_polls: list[Span] = field(default_factory=list)
    """Polls that may have taken an item of which their client never heard."""
    unanswered: list[str] = field(default_factory=list)
    """Operations that got no answer at all, not even a refusal."""

    def faults(self) -> list[str]:
        """Return every broken promise, at most a few of each kind."""
        return [
            *_few(f"never answered: {what}" for what in self.unanswered),
            *_few(self._register_faults()),
            *_few(self._lost_items()),
            *_few(self._doubled_items()),
            *_few(self._disordered_items()),
        ]

    def doubtful(self) -> set[bytes]:
        """Return the items that nobody had and whose producers do not know of: they may come."""
        delivered = {(one.producer, one.number) for one in self.deliveries}
        return {
            f"{offer.producer}:{offer.number}".encode()
            for offer in self.offers
            if offer.ended_s == math.inf and (offer.producer, offer.number) not in delivered
        }

    # Keys

    def _register_faults(self) -> Iterator[str]:
        writes: dict[str, list[Write]] = defaultdict(list)
        reads: dict[str, list[Read]] = defaultdict(list)
        for write in self.writes:
            writes[write.key].append(write)
        for read in self.reads:
            reads[read.key].append(read)
        for key in writes.keys() | reads.keys():
            yield from _zone_faults(key, writes[key], reads[key])

    # Queues

    def _lost_items(self) -> Iterator[str]:
        delivered = {(one.producer, one.number) for one in self.deliveries}
        for offer in self.offers:
            name = offer.producer, offer.number
            if offer.ended_s < math.inf and name not in delivered:
                yield f"lost: item {name}, answered at {offer.ended_s:.3f}"

    def _doubled_items(self) -> Iterator[str]:
        offered = {(one.producer, one.number) for one in self.offers}
        first: dict[tuple[str, int], Delivery] = {}
        for delivery in sorted(self.deliveries, key=lambda one: one.ended_s):
            name = delivery.producer, delivery.number
            if name not in offered:
                yield f"from nowhere: item {name}"
            before = first.setdefault(name, delivery)
            if before is not delivery and not self._in_window(before):
                yield (
                    f"delivered twice: item {name} by member {before.member} at "
                    f"{before.ended_s:.3f}, by member {delivery.member} at {delivery.ended_s:.3f}"
                )

    def _in_window(self, delivery: Delivery) -> bool:
        """Whether its member crashed before the log may have heard of it."""
        return any(
            crash.member == delivery.member
            and delivery.begun_s <= crash.ended_s
            and crash.begun_s <= delivery.ended_s + CRASH_WINDOW_S
            for crash in self.crashes
        )

    def _disordered_items(self) -> Iterator[str]:
        delivered: dict[tuple[str, int], Delivery] = {}
        for one in sorted(self.deliveries, key=lambda one: one.ended_s, reverse=True):
            delivered[one.producer, one.number] = one  # which leaves the first
        offers: dict[str, list[Offer]] = defaultdict(list)
        for offer in self.offers:
            if offer.ended_s < math.inf and (offer.producer, offer.number) in delivered:
                offers[offer.producer].append(offer)
        for producer, ordered in offers.items():
            ordered.sort(key=lambda one: one.number)
            least_s, by = math.inf, 0
            # Who was offered later must not be delivered before: from the back, the earliest end.
            for offer in reversed(ordered):
                own = delivered[producer, offer.number]
                if least_s < own.begun_s and not self._excused(offer, own):
                    yield f"out of order: {producer} {by} was delivered before {offer.number}"
                if own.ended_s < least_s:
                    least_s, by = own.ended_s, offer.number

    def _excused(self, offer: Offer, delivery: Delivery) -> bool:
        """Whether somebody may have had the item before, who gave it back."""
        return any(
            span.begun_s <= delivery.ended_s and span.ended_s + CRASH_WINDOW_S >= offer.begun_s
            for span in (*self.crashes, *self.lost_polls)
        )


class _Zone(NamedTuple):
    begun_s: float
    ended_s: float
    forward: bool
    value: str


def _zone_faults(key: str, writes: Iterable[Write], reads: Iterable[Read]) -> Iterator[str]:
    written = {write.value: write for write in writes}
    written[NOTHING] = Write(key, NOTHING, -math.inf, -math.inf)
    seen: dict[str, list[Read]] = defaultdict(list)
    for read in reads:
        write = written.get(read.value)
        if write is None:
            yield f"from nowhere: {key} read as {read.value!r}"
        elif read.ended_s < write.begun_s:
            yield f"from the future: {key} read as {read.value!r}"
        else:
            seen[read.value].append(read)
    zones = [
        _zone(write, seen[value])
        for value, write in written.items()
        if seen[value] or write.ended_s < math.inf
    ]
    yield from _zone_conflicts(key, zones)


def _zone(write: Write, reads: list[Read]) -> _Zone:
    first_end = min([write.ended_s, *(read.ended_s for read in reads)])
    last_begin = max([write.begun_s, *(read.begun_s for read in reads)])
    if first_end < last_begin:
        return _Zone(first_end, last_begin, True, write.value)
    return _Zone(last_begin, first_end, False, write.value)


def _zone_conflicts(key: str, zones: list[_Zone]) -> Iterator[str]:
    """Yield the values that were there in times when another one must have been."""
    forward = sorted(zone for zone in zones if zone.forward)
    for former, zone in itertools.pairwise(forward):
        if zone.begun_s < former.ended_s:
            yield _stale(key, former, zone)
    place = 0
    for zone in sorted(zone for zone in zones if not zone.forward):
        while place < len(forward) and forward[place].ended_s < zone.begun_s:
            place += 1
        if place < len(forward):
            around = forward[place]
            if around.begun_s < zone.begun_s and zone.ended_s < around.ended_s:
                yield _stale(key, around, zone)


def _stale(key: str, one: _Zone, other: _Zone) -> str:
    return (
        f"stale or lost: {key} was {one.value!r} in [{one.begun_s:.3f}, {one.ended_s:.3f}] and "
        f"{other.value!r} in [{other.begun_s:.3f}, {other.ended_s:.3f}]"
    )


def _few(faults: Iterator[str], most: int = 5) -> list[str]:
    return [fault for _, fault in zip(range(most), faults, strict=False)]
