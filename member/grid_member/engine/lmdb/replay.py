"""Reading a log from its beginning: LMDB's snapshot and the records after it, then its WAL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.io.store_errors import LOG_ERRORS, damage_error
from grid_member.engine.lmdb.pages import explained_error
from grid_member.engine.lmdb.tables import CHUNK, SEQUENCE, unpack_record
from grid_member.engine.lmdb.wal import read_wal
from grid_member.engine.state import codec
from grid_member.engine.state.operations import Committed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from grid_member.engine.api import EngineError
    from grid_member.engine.lmdb.tables import Tables
    from grid_member.engine.state.snapshot import Part


class Replay:
    """One pass over a log; afterwards it tells where the log ends."""

    def __init__(self, tables: Tables, path: Path) -> None:
        self.sequence = 0
        self.timestamp_ms = 0
        self.stored_bytes = 0
        self.salt = b""
        """Of the WAL that LMDB notes; empty without one."""
        self.wal: list[bytes] = []
        """The values that are there behind LMDB's records."""
        self._tables = tables
        self._path = path

    def steps(self) -> Iterator[Committed | Sequence[Part]]:
        """Yield the latest snapshot's parts, then the records after it.

        Raises:
            EngineError: it cannot be read now; `DamagedStoreError`: it is damaged.
        """
        try:
            base, chunks = self._tables.base()
            self.sequence = base
            yield from self._read_snapshot(base, chunks)
            yield from self._records(base)
            yield from self._behind()
        except LOG_ERRORS as error:
            raise explained_error(self._path, error) from error

    def _read_snapshot(self, base: int, chunks: int) -> Iterator[Sequence[Part]]:
        tables = self._tables
        with tables.environment.begin(tables.snapshot) as transaction:
            for number in range(chunks):
                data = transaction.get(CHUNK.pack(base, number))
                if data is None:
                    raise self._damage_error(f"chunk {number} is gone")
                self.stored_bytes += len(data)
                yield codec.decode_parts(data)

    def _records(self, base: int) -> Iterator[Committed]:
        tables = self._tables
        with tables.environment.begin(tables.log) as transaction, transaction.cursor() as cursor:
            count = transaction.stat(tables.log)["entries"]
            first = SEQUENCE.unpack(cursor.key())[0] if cursor.first() else 1
            found = cursor.set_range(SEQUENCE.pack(base + 1))
            while found:
                key, value = cursor.item()
                sequence = SEQUENCE.unpack(key)[0]
                if sequence != self.sequence + 1:
                    raise self._damage_error(f"record {self.sequence + 1} is missing")
                yield self._commit(sequence, value)
                found = cursor.next()
        if first + count - 1 > self.sequence:
            # A damaged page may pass for an empty one, and its neighbours hide it at the end.
            raise self._damage_error(f"record {self.sequence + 1} is missing")

    def _behind(self) -> Iterator[Committed]:
        self.salt = self._tables.salt()
        if not self.salt:
            return
        found = read_wal(self._path, self.salt, self.sequence)
        if found is None:
            raise self._damage_error("its tail is gone, or cut")
        self.wal = found.values
        for value in found.values:
            yield self._commit(self.sequence + 1, value)
        if found.gap:
            raise self._damage_error(f"record {self.sequence + 1} is missing in its tail")

    def _commit(self, sequence: int, value: bytes) -> Committed:
        timestamp_ms, record = unpack_record(sequence, value)
        self.sequence = sequence
        self.timestamp_ms = max(self.timestamp_ms, timestamp_ms)
        self.stored_bytes += len(value)
        return Committed(sequence, timestamp_ms, record)

    def _damage_error(self, what: object) -> EngineError:
        return damage_error(f"the log in {self._path}", what)
