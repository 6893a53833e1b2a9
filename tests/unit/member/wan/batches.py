"""Batches and changes for the tests of the protocol, the sender and the receiver."""

from __future__ import annotations

from typing import Final

from grid_member.engine.wan.agreement import MergePolicy, PublisherName
from grid_member.engine.wan.changes import Change, ChangeKind
from grid_member.wan.protocol import BatchHeader, BatchWriter

SOURCE: Final = bytes(range(16))
TARGET: Final = bytes(range(16, 32))
OTHER: Final = bytes(range(32, 48))
NAME: Final = PublisherName("london-rep", "london")
HEADER: Final = BatchHeader(SOURCE, TARGET, NAME)
LATEST: Final = MergePolicy.LATEST_UPDATE


def put(name: str, key: str, stamp: int, value: bytes = b"value") -> Change:
    return Change(name, ChangeKind.PUT, key, stamp, value, "text/plain", 0, 0, (SOURCE,))


def removal(name: str, key: str, stamp: int) -> Change:
    return Change(name, ChangeKind.REMOVAL, key, stamp, b"", None, 0, 0, (SOURCE,))


def clear(name: str, stamp: int) -> Change:
    return Change(name, ChangeKind.CLEAR, "", stamp, b"", None, 0, 0, (SOURCE,))


SOME: Final = (
    put("orders", "ada", 2**40)._replace(passed=()),
    put("orders", "grace", 2**40 + 1)._replace(
        deadline_ms=1_790_000_000_000, idle_ms=60_000, passed=()
    ),
    put("people", "ada", 2**58)._replace(content_type=None, value=b""),
    removal("orders", "a\udce9", 2**40 + 3)._replace(passed=(SOURCE, OTHER)),
    clear("people", 2**40 + 4)._replace(passed=()),
    put("people", "Größe", 1)._replace(
        content_type="application/json", value=b"\x00\xff", passed=()
    ),
)
"""Of every kind; the receiver refuses those that have not passed their source."""


def body(*changes: Change, header: BatchHeader = HEADER) -> bytes:
    writer = BatchWriter(header)
    for change in changes:
        writer.add(change, LATEST)
    return writer.body()
