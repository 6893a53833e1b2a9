"""Reading a log in LMDB from its beginning: the image, then the records after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine import codec
from grid_member.engine.lmdb_check import explained
from grid_member.engine.lmdb_tables import CHUNK, SEQUENCE
from grid_member.engine.lmdb_values import unpack_record
from grid_member.engine.operations import Committed
from grid_member.engine.store_errors import LOG_ERRORS, damaged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from grid_member.engine.api import EngineError
    from grid_member.engine.image import Part
    from grid_member.engine.lmdb_tables import Tables


class Replay:
    """One pass over a log; afterwards it tells where the log ends."""

    def __init__(self, tables: Tables, path: Path) -> None:
        """Read nothing yet."""
        self.sequence = 0
        self.timestamp_ms = 0
        self.stored_bytes = 0
        self._tables = tables
        self._path = path

    def steps(self) -> Iterator[Committed | Sequence[Part]]:
        """Yield the latest image's parts, then the records after it.

        Raises:
            EngineError: it cannot be read now; `DamagedStoreError`: it is damaged.
        """
        try:
            base, chunks = self._tables.base()
            self.sequence = base
            yield from self._image(base, chunks)
            yield from self._records(base)
        except LOG_ERRORS as error:
            raise explained(self._path, error) from error

    def _image(self, base: int, chunks: int) -> Iterator[Sequence[Part]]:
        tables = self._tables
        with tables.environment.begin(tables.image) as transaction:
            for number in range(chunks):
                data = transaction.get(CHUNK.pack(base, number))
                if data is None:
                    raise self._damaged(f"chunk {number} is gone")
                self.stored_bytes += len(data)
                yield codec.decode_parts(data)

    def _records(self, base: int) -> Iterator[Committed]:
        tables = self._tables
        with tables.environment.begin(tables.log) as transaction, transaction.cursor() as cursor:
            found = cursor.set_range(SEQUENCE.pack(base + 1))
            while found:
                key, value = cursor.item()
                sequence = SEQUENCE.unpack(key)[0]
                if sequence != self.sequence + 1:
                    raise self._damaged(f"record {self.sequence + 1} is missing")
                timestamp_ms, record = unpack_record(sequence, value)
                self.sequence = sequence
                self.timestamp_ms = max(self.timestamp_ms, timestamp_ms)
                self.stored_bytes += len(value)
                yield Committed(sequence, timestamp_ms, record)
                found = cursor.next()

    def _damaged(self, what: object) -> EngineError:
        return damaged(f"the log in {self._path}", what)
