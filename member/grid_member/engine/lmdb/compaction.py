"""Compacting a log in LMDB: a snapshot goes in piece by piece, then what it replaces goes out."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from grid_member.engine.lmdb.tables import CHUNK, SEQUENCE
from grid_member.engine.state import codec, snapshot

if TYPE_CHECKING:
    from grid_member.engine.lmdb.tables import Tables
    from grid_member.engine.state.snapshot import Part, Snapshot

SNAPSHOT_CHUNK_PARTS: Final = 1000
"""Entries of a snapshot that are encoded at a time, a few milliseconds of work."""
SNAPSHOT_CHUNK_BYTES: Final = 1024 * 1024
"""Bytes of values after which a chunk is full, and of chunks that are stored at a time."""
SHORT_CHUNK_BYTES: Final = 1024
"""The same of a chunk while the disk is full, where free pages lie one by one."""
PURGE_BATCH: Final = 2000
"""Records or chunks removed in one transaction."""
PURGE_BYTES: Final = 2 * 1024 * 1024
"""Bytes after which a transaction removes no more: their list of free pages fits into one page."""
_WITH_VALUE: Final = (
    snapshot.EntryPart, snapshot.TrackedEntryPart, snapshot.ItemPart, snapshot.SystemValuePart,
)  # fmt: skip


class SnapshotJob:
    """A snapshot on its way into the store."""

    __slots__ = (
        "_chunk_bytes",
        "_chunks",
        "_parts",
        "live_bytes",
        "parts_stored",
        "sequence",
        "size_bytes",
    )

    def __init__(self, content: Snapshot, live_bytes: int, chunk_bytes: int) -> None:
        """Begin; a chunk is full with so many bytes of values.

        `live_bytes` is what the state says that it holds.
        """
        self.sequence = content.sequence
        self.live_bytes = live_bytes
        self.size_bytes = 0
        self.parts_stored = 0
        self._parts = snapshot.parts(content)
        self._chunks = 0
        self._chunk_bytes = chunk_bytes

    def store_next(self, tables: Tables) -> bool:
        """Store the next chunks, or behind the last one make the snapshot count; False then."""
        chunks: list[bytes] = []
        size_bytes = 0
        while size_bytes < SNAPSHOT_CHUNK_BYTES and (chunk := self._next_chunk()) is not None:
            chunks.append(chunk)
            size_bytes += len(chunk)
        if chunks:
            tables.put_chunks(self.sequence, enumerate(chunks, self._chunks))
        else:
            tables.put_base(self.sequence, self._chunks)
        self._chunks += len(chunks)
        self.size_bytes += size_bytes
        return bool(chunks)

    def _next_chunk(self) -> bytes | None:
        chunk: list[Part] = []
        size_bytes = 0
        for part in islice(self._parts, SNAPSHOT_CHUNK_PARTS):
            chunk.append(part)
            if isinstance(part, _WITH_VALUE):
                size_bytes += len(part.value)
            if size_bytes >= self._chunk_bytes:
                break
        self.parts_stored += len(chunk)
        return codec.encode_parts(chunk) if chunk else None


def purge(tables: Tables) -> bool:
    """Remove some of what the snapshot replaced; False when nothing is left to remove."""
    base = tables.base()[0]
    with tables.write() as transaction:
        removed = removed_bytes = 0
        with transaction.cursor(tables.log) as cursor:
            cursor.first()
            # The key is empty behind the last record.
            while _may_go_on(removed, removed_bytes) and (key := cursor.key()):
                if SEQUENCE.unpack(key)[0] > base:
                    break
                removed_bytes += len(cursor.value())
                cursor.delete()
                removed += 1
        with transaction.cursor(tables.snapshot) as cursor:
            cursor.first()
            while _may_go_on(removed, removed_bytes) and (key := cursor.key()):
                if CHUNK.unpack(key)[0] == base:
                    cursor.set_range(CHUNK.pack(base + 1, 0))
                    continue
                removed_bytes += len(cursor.value())
                cursor.delete()
                removed += 1
    return removed > 0


def _may_go_on(removed: int, removed_bytes: int) -> bool:
    return removed < PURGE_BATCH and removed_bytes < PURGE_BYTES
