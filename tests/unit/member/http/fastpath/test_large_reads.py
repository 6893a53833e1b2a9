"""While a large body comes, one read brings more; before and after it, as much as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.http.fastpath import connection
from grid_member.http.fastpath.connection import READ_BYTES
from tests.fuzz.fast_path_script import Run
from tests.fuzz.fast_path_wire import Sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE_BYTES = 1000
HEAD = b"POST /grid/rest/maps/default/k HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A connection over a transport that has the limit, to which bodies are large soon."""
    monkeypatch.setattr(connection, "LARGE_READ_BYTES", LARGE_BYTES)
    begun = Run(Sockets())
    cast("Any", begun.transport).max_size = READ_BYTES
    yield begun
    begun.close()


def limit_after(run: Run, data: bytes) -> int:
    run.inbox += data
    run.deliver()
    return cast("int", cast("Any", run.transport).max_size)


def test_a_large_body_is_read_in_larger_pieces(run: Run) -> None:
    assert limit_after(run, HEAD % LARGE_BYTES) == LARGE_BYTES
    assert limit_after(run, b"v" * (LARGE_BYTES - 1)) == LARGE_BYTES
    assert limit_after(run, b"v") == READ_BYTES


def test_a_smaller_body_is_not(run: Run) -> None:
    assert limit_after(run, HEAD % (LARGE_BYTES - 1)) == READ_BYTES


def test_who_takes_over_in_a_large_body_has_the_usual_reads(run: Run) -> None:
    assert limit_after(run, HEAD % LARGE_BYTES) == LARGE_BYTES
    run.no_uploads()
    assert limit_after(run, b"v") == READ_BYTES
    assert run.handed_over
