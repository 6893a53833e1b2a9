"""Logs of clusters that are replaced by images all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from grid_member.engine.nats import cleaning, images

if TYPE_CHECKING:
    import pytest

    from grid_member.engine.local.engine import LocalEngine
    from grid_member.engine.nats.cleaning import Cleaner
    from grid_member.engine.nats.log import JetStreamLog


def clean_always(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int = 300) -> None:
    """Let a log be replaced by an image as soon as the one before is complete."""
    monkeypatch.setattr(cleaning, "SLACK_BYTES", 0)
    monkeypatch.setattr(cleaning, "GARBAGE", 0)
    monkeypatch.setattr(cleaning, "RETRY_S", 0.01)
    monkeypatch.setattr(cleaning, "OTHERS_S", 0.05)
    monkeypatch.setattr(cleaning, "BUSY_S", 0.0)
    monkeypatch.setattr(images, "CHUNK_BYTES", chunk_bytes)


def cleaner_of(engine: LocalEngine, lane: int = 0) -> Cleaner:
    return cast("JetStreamLog", engine.lanes[lane]._log)._cleaner
