"""Promise: a walk gives up the event loop after a slice of work, however full one bucket is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.engine.wan.agreement import MapReference, MergePolicy
from grid_member.engine.wan.digests import Held
from grid_member.engine.wan.key_filter import KeyFilter
from grid_member.wan.comparison.buckets import SLICE_BYTES, Walk
from grid_member.wan.pacing import SLICE, Pacer

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPARISONS: Final = 32
"""Of keys, for each key of a slice: more than sorting a slice takes, or merging many."""
ALL: Final = KeyFilter(MapReference("", MergePolicy.LATEST_UPDATE, False, (), ()))
REMOVED: Final = Held(7, None, None, 0)


@dataclass
class Work:
    """What is done between two turns of the loop."""

    compared: int = 0
    looked_at: int = 0
    size_bytes: int = 0
    most: dict[str, int] = field(default_factory=dict)

    async def turn(self, seconds: float) -> None:
        for name in ("compared", "looked_at", "size_bytes"):
            self.most[name] = max(self.most.get(name, 0), getattr(self, name))
            setattr(self, name, 0)


class Key(str):
    """A key that counts how often it is compared with another one."""

    __slots__ = ("work",)
    work: Work

    def __lt__(self, other: str) -> bool:
        self.work.compared += 1
        return str.__lt__(self, other)

    __hash__ = str.__hash__


class CountedMap:
    """A map that counts what is read of it."""

    cleared = purged = 0

    def __init__(self, work: Work, removed: Iterable[str], values: dict[str, bytes]) -> None:
        self.work = work
        self.values = {self.key(name): value for name, value in values.items()}
        self.removed = [self.key(name) for name in removed]

    def key(self, name: str) -> Key:
        key = Key(name)
        key.work = self.work
        return key

    def keys(self) -> list[str]:
        return [*self.values]

    def removed_keys(self) -> list[str]:
        return [*self.removed]

    def held(self, key: str) -> Held | None:
        self.work.looked_at += 1
        value = self.values.get(self.key(key))
        self.work.size_bytes += len(value or b"")
        return REMOVED if value is None else Held(9, value, None, 0)


def walk(found: CountedMap) -> Walk:
    return Walk(found, ALL, b"job", 0, Pacer(lambda: 0.0, found.work.turn))


async def test_a_page_of_a_full_bucket_is_made_in_slices_and_in_order() -> None:
    work = Work()
    names = [f"key-{number * 7919 % 9000}" for number in range(9000)]
    found = CountedMap(work, names, {names[0]: b"v"})
    rows, more = await walk(found).page((0,), None)
    await work.turn(0)
    assert not more
    assert [row.key for row in rows] == sorted(names), "in order, and each key once"
    assert work.most["looked_at"] <= SLICE
    assert work.most["compared"] <= COMPARISONS * SLICE


async def test_what_lies_before_a_page_is_passed_in_slices() -> None:
    work = Work()
    names = [f"key-{number:05d}" for number in range(9000)]
    found = CountedMap(work, reversed(names), {})
    rows, _ = await walk(found).page((0,), found.key(names[-2]))
    await work.turn(0)
    assert [row.key for row in rows] == names[-1:]
    assert work.most["compared"] <= COMPARISONS * SLICE


async def test_large_values_make_slices_smaller() -> None:
    work, size_bytes = Work(), SLICE_BYTES // 4
    found = CountedMap(work, (), {f"key-{number}": bytes(size_bytes) for number in range(40)})
    rows, _ = await walk(found).page((0,), None)
    await work.turn(0)
    assert len(rows) == 40
    assert work.most["size_bytes"] <= SLICE_BYTES + size_bytes
