"""Logs of clusters that are replaced by snapshots all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from grid_member.engine.jetstream import compaction, snapshots

if TYPE_CHECKING:
    import pytest

    from grid_member.engine.jetstream.compaction import Compactor
    from grid_member.engine.jetstream.log import JetStreamLog
    from grid_member.engine.local.engine import LocalEngine


def compact_always(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int = 300) -> None:
    """Let a log be replaced by a snapshot as soon as the one before is complete."""
    monkeypatch.setattr(compaction, "SLACK_BYTES", 0)
    monkeypatch.setattr(compaction, "GARBAGE", 0)
    monkeypatch.setattr(compaction, "RETRY_S", 0.01)
    monkeypatch.setattr(compaction, "OTHERS_S", 0.05)
    monkeypatch.setattr(compaction, "BUSY_S", 0.0)
    monkeypatch.setattr(snapshots, "CHUNK_BYTES", chunk_bytes)


def compactor_of(engine: LocalEngine, shard: int = 0) -> Compactor:
    return cast("JetStreamLog", engine.shards[shard]._log)._compactor
