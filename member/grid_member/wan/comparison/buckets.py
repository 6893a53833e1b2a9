"""Walks through a map: digests of its buckets, and the rows of some of them.

A walk gives up the event loop after a slice of entries or bytes. What changes meanwhile makes a
difference that is none, or hides none: a change that is made later is queued.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.wan.digests import Digests, Row, bucket_of, digest_of, key_bytes_of, rank_of
from grid_member.wan.comparison.messages import PAGE_BYTES, row_bytes
from grid_member.wan.pacing import SLICE
from grid_member.wan.protocol import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence

    from grid_member.engine.wan.digests import Held
    from grid_member.engine.wan.key_filter import KeyFilter
    from grid_member.wan.pacing import Pacer

SLICE_BYTES: Final = 256 << 10
"""Of values that are hashed in one turn of the loop."""
_KEY_BYTES: Final = -(-SLICE_BYTES // SLICE)
"""What a key counts as beside its value, rounded up: one turn has no more than SLICE keys."""


class ComparedMap(Protocol):
    """A map as it is at the moment of each call."""

    def keys(self) -> list[str]:
        """Return the keys of all entries."""

    def removed_keys(self) -> list[str]:
        """Return the keys of all tombstones."""

    def held(self, key: str) -> Held | None:
        """Return what is known of a key."""

    @property
    def cleared(self) -> int:
        """The stamp of the last clear; 0 without one."""

    @property
    def purged(self) -> int:
        """The newest stamp of a tombstone that was purged by time or number."""


class Walk:
    """Walks through one map."""

    def __init__(
        self, found: ComparedMap, keys: KeyFilter, secret: bytes, bits: int, pacer: Pacer
    ) -> None:
        """Walk nowhere yet.

        Args:
            found: the map.
            keys: those that matter.
            secret: keys the digests.
            bits: of the number of a bucket.
            pacer: gives up the loop.
        """
        self._found = found
        self._filter = keys
        self._secret = secret
        self._bits = bits
        self._pacer = pacer
        self._worked_bytes = 0
        """Of keys and values since the last turn of the loop."""

    async def digests(self) -> Digests:
        """Return the digests of all buckets."""
        digests = Digests(self._bits)
        digests.removed = len(self._found.removed_keys())
        found, secret, bits = self._found, self._secret, self._bits
        size_bytes = 0
        async for keys in self._slices(found.keys()):
            for key in keys:
                held = found.held(key)
                if held is None or held.value is None:
                    continue
                key_bytes = key_bytes_of(key)
                digests.add(bucket_of(key_bytes, bits), digest_of(secret, key_bytes, held))
                size_bytes += len(held.value)
                if size_bytes > SLICE_BYTES:
                    size_bytes = 0
                    await self._pacer.turn()
        return digests

    async def keys(self, buckets: Collection[int] | None = None) -> dict[int, list[str]]:
        """Return the keys of buckets, None is all, by bucket; those of tombstones are among them.

        A key that was removed during the walk may stand twice.
        """
        bits = self._bits
        by_bucket: dict[int, list[str]] = {}
        for every in (self._found.keys(), self._found.removed_keys()):
            async for keys in self._slices(every):
                for key in keys:
                    bucket = bucket_of(key_bytes_of(key), bits)
                    if buckets is None or bucket in buckets:
                        by_bucket.setdefault(bucket, []).append(key)
        return by_bucket

    def bucket(self, key: str) -> int:
        """Return the bucket of a key."""
        return bucket_of(key_bytes_of(key), self._bits)

    async def in_order(self, keys: Sequence[str]) -> Iterator[str]:
        """Return keys in order, each once.

        Many keys are sorted in slices, which are merged while the caller takes one key after
        the other: so the caller has to give up the loop, as `row` does.
        """
        if len(keys) <= SLICE:
            return iter(sorted({*keys}))
        slices: list[list[str]] = []
        for start in range(0, len(keys), SLICE):
            slices.append(sorted(keys[start : start + SLICE]))
            await self._turn()
        return (key for key, _ in itertools.groupby(heapq.merge(*slices)))

    async def row(self, key: str) -> Row | None:
        """Return what is told of a key; give up the loop after a slice of keys or values."""
        await self._count_key()
        return self._row(key)

    def _row(self, key: str) -> Row | None:
        held = self._found.held(key)
        if held is None:
            return None
        self._worked_bytes += len(held.value or b"")
        digest = digest_of(self._secret, key_bytes_of(key), held)
        return Row(key, held.stamp, digest, held.value is None, rank_of(held))

    async def page(self, buckets: Sequence[int], after: str | None) -> tuple[list[Row], bool]:
        """Return the next rows of buckets, in order, and whether there are more."""
        first = -1 if after is None else self.bucket(after)
        by_bucket = await self.keys({bucket for bucket in buckets if bucket >= first})
        rows: list[Row] = []
        size_bytes = 0
        for bucket in sorted(by_bucket):
            for key in await self.in_order(by_bucket[bucket]):
                await self._count_key()
                if bucket == first and after is not None and key <= after:
                    continue
                row = self._row(key) if len(key_bytes_of(key)) <= MAX_TEXT_BYTES else None
                if row is None:
                    continue
                if size_bytes >= PAGE_BYTES:
                    return rows, True
                rows.append(row)
                size_bytes += row_bytes(key_bytes_of(key))
        return rows, False

    async def _count_key(self) -> None:
        """Note that a key is worked on, in the next turn of the loop when a slice was done."""
        if self._worked_bytes >= SLICE_BYTES:
            await self._turn()
        self._worked_bytes += _KEY_BYTES

    async def _turn(self) -> None:
        self._worked_bytes = 0
        await self._pacer.turn()

    async def _slices(self, keys: Sequence[str]) -> AsyncIterator[Sequence[str]]:
        """Yield the keys that matter in slices, with a turn of the loop between two."""
        self._pacer.begin()
        for start in range(0, len(keys), SLICE):
            if start:
                await self._pacer.turn()
            some = keys[start : start + SLICE]
            if self._filter.takes_all:
                yield some
            else:
                yield [key for key in some if self._filter.includes(key)]
