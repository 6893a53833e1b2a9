"""Environments that tell how long their commits take, each with its sync to the disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from grid_member.engine.lmdb.tables import open_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    import lmdb

    from grid_member.engine.lmdb.tables import Environments

TimeReport: TypeAlias = "Callable[[float], None]"
"""Takes the seconds of one commit that succeeded, on the thread that made it."""


def timed_opener(report: TimeReport, environments: Environments = open_environment) -> Environments:
    """Return what opens LMDB and tells of every commit, those of the compaction too."""

    def opened(path: Path, map_size_bytes: int, create: bool) -> lmdb.Environment:
        environment = environments(path, map_size_bytes, create)
        return cast("lmdb.Environment", _TimedEnvironment(environment, report))

    return opened


class _TimedEnvironment:
    def __init__(self, environment: Any, report: TimeReport) -> None:
        self._environment = environment
        self._report = report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def begin(self, *args: Any, write: bool = False, **options: Any) -> Any:
        transaction = self._environment.begin(*args, write=write, **options)
        return _TimedTransaction(transaction, self._report) if write else transaction


class _TimedTransaction:
    """A write transaction that is used as a context, which is the only way the log does."""

    def __init__(self, transaction: Any, report: TimeReport) -> None:
        self._transaction = transaction
        self._report = report

    def __enter__(self) -> Any:
        return self._transaction.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        began_s = time.perf_counter()
        self._transaction.__exit__(kind, problem, trace)
        if kind is None:
            self._report(time.perf_counter() - began_s)
