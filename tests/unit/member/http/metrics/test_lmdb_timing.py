"""Commits tell how long they took, failed ones and reads do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_member.engine.lmdb.tables import create_log, open_environment
from grid_member.engine.lmdb.timing import timed_opener

if TYPE_CHECKING:
    from pathlib import Path

MAP_SIZE_BYTES = 1 << 20


def test_only_commits_are_told(tmp_path: Path) -> None:
    create_log(tmp_path, 0)
    told: list[float] = []
    environment = timed_opener(told.append)(tmp_path, MAP_SIZE_BYTES, False)
    table = environment.open_db(b"meta", create=False)
    with environment.begin(table) as transaction:
        transaction.get(b"k")
    assert told == []
    with environment.begin(table, write=True) as transaction:
        transaction.put(b"k", b"v")
    assert len(told) == 1
    assert told[0] > 0

    def undone() -> None:
        with environment.begin(table, write=True) as transaction:
            transaction.put(b"k", b"w")
            raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        undone()
    with environment.begin(table) as transaction:
        assert transaction.get(b"k") == b"v"
    assert len(told) == 1
    environment.close()


def test_a_commit_that_fails_is_not_told(tmp_path: Path) -> None:
    create_log(tmp_path, 0)
    told: list[float] = []

    class Failing:
        def __init__(self, transaction: Any) -> None:
            self._transaction = transaction

        def __enter__(self) -> Any:
            return self._transaction.__enter__()

        def __exit__(self, *_: object) -> None:
            self._transaction.__exit__(OSError, OSError(), None)
            raise OSError("the disk is full")

    class Environment:
        def __init__(self, environment: Any) -> None:
            self._environment = environment

        def begin(self, **options: Any) -> Any:
            return Failing(self._environment.begin(**options))

    inner = open_environment(tmp_path, MAP_SIZE_BYTES, False)
    environment: Any = timed_opener(told.append, lambda *_: Environment(inner))(tmp_path, 1, False)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="full"), environment.begin(write=True):
        pass
    assert told == []
    inner.close()
