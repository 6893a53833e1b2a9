"""What the bench of the compaction reads in the logs of members."""

from __future__ import annotations

import inspect

from bench.parts.cleaner import SNAPSHOT_LOG_LINE
from grid_member.engine.jetstream import compaction


def test_members_log_a_snapshot_as_the_bench_counts_it() -> None:
    assert f" {SNAPSHOT_LOG_LINE} " in inspect.getsource(compaction)
