"""A member whose list does not name it says so; that is a hint and stops nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

from grid_member.config import ClusterConfig
from grid_member.start.address import UNLISTED, is_listed, warn_unless_listed

NOWHERE = "192.0.2.1"
"""Belongs to nobody (RFC 5737)."""
NAMES = {
    "here": ["127.0.0.1"],
    "both": [NOWHERE, "127.0.0.1"],
    "six": ["::1"],
    "away": [NOWHERE],
    "lost": [],
}


def cluster(*members: tuple[str, int], port: int = 5704) -> ClusterConfig:
    return ClusterConfig(port, members, "grid", "x")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([("away", 5704), ("here", 5704)], True),
        ([("away", 5704), ("both", 5704)], True),
        ([("lost", 5704), ("six", 5704)], True),
        ([("away", 5704), ("here", 5705)], False),
        ([("away", 5704), ("lost", 5704)], False),
        ([("here", 5701), ("six", 5702)], False),
    ],
)
def test_an_entry_is_this_member(members: list[tuple[str, int]], expected: bool) -> None:
    assert is_listed(cluster(*members), NAMES.__getitem__) is expected


def test_no_name_is_asked_for_that_has_another_port() -> None:
    asked: list[str] = []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        return [NOWHERE]

    assert not is_listed(cluster(("a", 1), ("b", 5704), ("c", 5704)), resolve)
    assert asked == ["b", "c"]


class Told(logging.Handler):
    """Wakes whoever waits for a line of the log."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.lines: asyncio.Queue[logging.LogRecord] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self.lines.put_nowait, record)


async def test_who_is_not_listed_is_told() -> None:
    told = Told(asyncio.get_running_loop())
    log = logging.getLogger("grid.member")
    log.addHandler(told)
    try:
        warn_unless_listed(cluster(("127.0.0.1", 5704), (NOWHERE, 5704)))
        warn_unless_listed(cluster(("127.0.0.1", 5704), (NOWHERE, 5713), ("a..b", 5713), port=5713))
        record = await asyncio.wait_for(told.lines.get(), 20)
    finally:
        log.removeHandler(told)

    assert (record.levelno, record.getMessage()) == (logging.WARNING, UNLISTED)
    assert record.__dict__["grid_fields"] == {"port": 5713}
