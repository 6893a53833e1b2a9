"""What a process reports goes through one writer: its log, tracebacks, the metric."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, start_member
from grid_member.telemetry.handler import LogHandler, StderrLines, dropped_lines
from grid_member.telemetry.logs import TextLines, repeatable
from tests.unit.member.http.metrics.scraped import Scraped, configured
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A reader and a writer."""
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_what_is_written_to_stderr_is_passed_on_by_lines(ends: tuple[int, int]) -> None:
    handler = LogHandler(TextLines(), ends[1])
    stderr = StderrLines(handler.writer, ends[1])
    for text in ("one\ntw", "o", "\nthr\udcffee\u00e9"):
        assert stderr.write(text) == len(text)
    stderr.flush()
    handler.flush()
    assert os.read(ends[0], 1000) == "one\ntwo\nthr\\udcffee\u00e9\n".encode()
    assert stderr.writable()
    assert stderr.fileno() == ends[1]
    assert not stderr.isatty()


def test_a_line_that_does_not_end_is_not_kept_for_ever(ends: tuple[int, int]) -> None:
    handler = LogHandler(TextLines(), ends[1])
    StderrLines(handler.writer, ends[1]).write("x" * (64 * 1024 + 1))
    taken = b""
    while not taken.endswith(b"\n"):
        taken += os.read(ends[0], 100_000)
    assert taken == b"x" * (64 * 1024 + 1) + b"\n"


def test_a_traceback_of_a_thread_takes_the_same_way(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = LogHandler(TextLines(), ends[1])
    monkeypatch.setattr(sys, "stderr", StderrLines(handler.writer, ends[1]))
    monkeypatch.setattr(threading, "excepthook", lambda told: traceback.print_exception(told[1]))
    failing = threading.Thread(target=lambda: int("planted"))
    failing.start()
    failing.join()
    handler.flush()
    text = os.read(ends[0], 10_000).decode()
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("ValueError: invalid literal for int() with base 10: 'planted'\n")


def test_a_line_that_cannot_be_made_ends_nothing(
    ends: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.Logger("grid.tests.broken")
    handler = LogHandler(TextLines(), ends[1])
    logger.addHandler(handler)
    logger.warning("%d lines", "many")
    logger.warning("next")
    handler.flush()
    assert b"next\n" in os.read(ends[0], 1000)
    assert "many" in capsys.readouterr().err


async def test_the_metric_counts_dropped_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    handler = LogHandler(TextLines(), full)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    try:
        text = configured()
        config = Config.from_text(text, name="grid.yaml", environment={})
        async with await start_member(config) as member:
            scraped = Scraped(member)
            before = (await scraped.figures()).value("grid_dropped_log_lines_total")
            logging.getLogger("grid.tests").warning("lost")
            await until(lambda: dropped_lines() > before)
            figures = await scraped.figures()
            assert figures.value("grid_dropped_log_lines_total") == dropped_lines()
    finally:
        handler.flush()
        os.close(full)


def test_a_count_that_cannot_be_told_ends_no_thread(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.Logger("grid.tests.counted")
    handler = LogHandler(TextLines(), ends[1])
    logger.addHandler(handler)
    for _ in range(2):
        repeatable(logger, logging.INFO, "refused")
    handler.flush()
    monkeypatch.setattr(handler, "format", lambda _: int("planted"))
    repeatable(logger, logging.INFO, "refused")
    handler.flush()
    monkeypatch.undo()
    logger.info("next")
    handler.flush()
    lines = os.read(ends[0], 1000).splitlines()
    assert [b"next" in line for line in lines] == [False, False, True]
    assert "planted" in capsys.readouterr().err
