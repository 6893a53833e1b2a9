"""Lines that a client causes again and again are counted."""

from __future__ import annotations

import logging
from typing import Any

from grid_member.telemetry import logs
from grid_member.telemetry.repeats import FIELDS, MAX_KINDS, PERIOD_S, Repeats

LOGGER = logging.getLogger("grid.tests.repeats")


class Seen(logging.Handler):
    """Keeps what is to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.repeats = Repeats()
        self.now_s = 100.0
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if self.repeats.admits(record, self.now_s):
            self._keep(record)

    def turn(self, seconds: float) -> None:
        self.now_s += seconds
        for record in self.repeats.due(self.now_s):
            self._keep(record)

    def taken(self) -> list[tuple[str, dict[str, Any]]]:
        lines, self.lines = self.lines, []
        return lines

    def _keep(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), getattr(record, FIELDS)))


def seen() -> Seen:
    handler = Seen()
    LOGGER.handlers[:] = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)
    return handler


def refuse(times: int, **fields: Any) -> None:
    for _ in range(times):
        logs.repeatable(LOGGER, logging.INFO, "refused", **fields)


def test_one_line_at_once_and_one_with_the_count_each_period() -> None:
    handler = seen()
    refuse(500, remote="a")
    assert handler.taken() == [("refused", {"remote": "a"})]
    handler.turn(PERIOD_S / 2)
    assert handler.taken() == []
    handler.turn(PERIOD_S / 2)
    assert handler.taken() == [("refused", {"remote": "a", "repeated": 499})]
    refuse(7, remote="a")
    assert handler.taken() == []
    handler.turn(PERIOD_S)
    assert handler.taken() == [("refused", {"remote": "a", "repeated": 7})]


def test_what_has_been_quiet_for_a_period_is_written_at_once() -> None:
    handler = seen()
    refuse(1, remote="a")
    handler.turn(PERIOD_S)
    refuse(1, remote="a")
    assert handler.taken() == [("refused", {"remote": "a"})] * 2
    handler.turn(2 * PERIOD_S)
    assert not handler.repeats.pending


def test_different_lines_are_counted_apart_up_to_a_bound() -> None:
    handler = seen()
    for n in range(MAX_KINDS + 50):
        refuse(2, remote=str(n))
    assert len(handler.taken()) == MAX_KINDS + 1
    handler.turn(PERIOD_S)
    counts = [fields["repeated"] for _, fields in handler.taken()]
    assert sorted(counts) == [1] * MAX_KINDS + [99]


def test_all_other_lines_are_written() -> None:
    handler = seen()
    for _ in range(3):
        logs.event(LOGGER, logging.INFO, "done", member="a")
    assert handler.taken() == [("done", {"member": "a"})] * 3


def test_unexpected_errors_are_counted_by_their_place() -> None:
    handler = seen()
    for _ in range(3):
        try:
            int("no number")
        except ValueError as error:
            logs.failure(LOGGER, "request failed", error)
    assert len(handler.taken()) == 1
