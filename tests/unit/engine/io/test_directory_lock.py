"""Who has a member's directory: one process, and the next one when that has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.io import directory_lock
from grid_member.engine.io.directory_lock import LOCK_PATIENCE_S, lock_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Time:
    """Goes on when somebody sleeps, and then something may happen."""

    def __init__(self, happens: Callable[[float], None]) -> None:
        self.now_s = 0.0
        self._happens = happens

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self._happens(self.now_s)


def test_the_former_process_has_a_few_seconds_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = [lock_directory(tmp_path)]

    def ends(now_s: float) -> None:
        if now_s > LOCK_PATIENCE_S - 1 and former:
            os.close(former.pop())

    monkeypatch.setattr(directory_lock, "time", Time(ends))
    os.close(lock_directory(tmp_path))
    assert not former


def test_who_goes_on_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(lambda _: None)
    monkeypatch.setattr(directory_lock, "time", time)
    taker = lock_directory(tmp_path)
    try:
        with pytest.raises(
            EngineError, match=rf"another process \(process {os.getpid()}\): stop it"
        ):
            lock_directory(tmp_path)
    finally:
        os.close(taker)
    assert LOCK_PATIENCE_S <= time.now_s < LOCK_PATIENCE_S + 1


def test_who_cannot_be_seen_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_lock, "time", Time(lambda _: None))
    locks = tmp_path / "locks"
    monkeypatch.setattr(directory_lock, "_LOCKS", locks)
    taker = lock_directory(tmp_path)
    found = os.fstat(taker)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    waiting = f"1: -> FLOCK  ADVISORY  WRITE 77 {file} 0 EOF"
    elsewhere = f"2: FLOCK  ADVISORY  WRITE 0 {file} 0 EOF"
    try:
        for seen in ([], [waiting], [elsewhere], ["3: FLOCK"]):
            locks.write_text("\n".join(seen))
            with pytest.raises(EngineError, match="another process: stop it"):
                lock_directory(tmp_path)
        locks.unlink()
        with pytest.raises(EngineError, match="another process: stop it"):
            lock_directory(tmp_path)
    finally:
        os.close(taker)
