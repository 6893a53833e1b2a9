"""A log reports how long its commits took, failed ones and reads excepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.lmdb.tables import MAP_SIZE_BYTES, Tables, create_log, open_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    create_log(tmp_path, 0)
    environment = open_environment(tmp_path, MAP_SIZE_BYTES, False)
    yield environment
    environment.close()


def test_only_commits_are_told(opened: Any) -> None:
    told: list[float] = []
    tables = Tables(opened, told.append)
    assert tables.base() == (0, 0)
    assert told == []
    tables.put_base(3, 1)
    assert len(told) == 1
    assert told[0] > 0

    def undone() -> None:
        with tables.write() as transaction:
            transaction.put(b"base", b"w", db=tables.meta)
            raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        undone()
    assert tables.base() == (3, 1)
    assert len(told) == 1


def test_a_commit_that_fails_is_not_told(opened: Any) -> None:
    class Failing:
        def __init__(self, transaction: Any) -> None:
            self._transaction = transaction

        def __enter__(self) -> Any:
            return self._transaction.__enter__()

        def __exit__(self, *_: object) -> None:
            self._transaction.__exit__(OSError, OSError(), None)
            raise OSError("the disk is full")

    class Environment:
        def __getattr__(self, name: str) -> Any:
            return getattr(opened, name)

        def begin(self, **options: Any) -> Any:
            return Failing(opened.begin(**options))

    told: list[float] = []
    tables = Tables(cast("Any", Environment()), told.append)
    with pytest.raises(OSError, match="full"):
        tables.put_base(3, 1)
    assert told == []
