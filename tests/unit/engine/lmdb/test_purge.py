"""What a snapshot replaced is removed without being read into the member's memory."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

from grid_member.engine.lmdb.compaction import purge
from grid_member.engine.lmdb.tables import new_log

if TYPE_CHECKING:
    from pathlib import Path

VALUE_BYTES = 8 << 20


def test_a_large_value_is_purged_without_a_copy(tmp_path: Path) -> None:
    with new_log(tmp_path / "log", 0) as tables:
        tables.append(0, [bytes(VALUE_BYTES), b"newer"])
        tables.put_base(1, 1)
        tracemalloc.start()
        try:
            assert purge(tables)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert tables.record(1) is None
        assert tables.record(2) == b"newer"
    assert peak_bytes < VALUE_BYTES / 8
