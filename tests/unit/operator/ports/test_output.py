"""What the operator and `gridctl up` write blocks neither of them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from grid_operator.ports import output
from grid_operator.ports.output import Output, gap_text
from tests.unit.pipes import PIPE_BYTES, full_pipe

if TYPE_CHECKING:
    import pytest

END_S = 20.0
LOGGING = """
import logging, threading
from grid_operator.handlers.log_format import configure_logging
configure_logging("json", "info")
for number in range(1000):
    logging.warning("line %d", number)
threading.Thread(target=lambda: int("planted")).start()
"""


def test_lines_are_written_in_their_order() -> None:
    reader, writer = os.pipe()
    made = Output(writer)
    print("one", "two", sep="\n", file=made)
    made.write("thr")
    made.flush()
    made.write("\udcffee")
    assert made.drain()
    assert os.read(reader, 1000) == b"one\ntwo\nthr\\udcffee\n"
    assert (made.writable(), made.isatty(), made.fileno()) == (True, False, writer)
    os.close(reader)
    os.close(writer)


def test_what_a_hanging_reader_missed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_WAITING_BYTES", 1000)
    monkeypatch.setattr(output, "DRAIN_S", 0.05)
    with full_pipe() as (reader, writer):
        made = Output(writer)
        for _ in range(100):
            made.write("x" * 99 + "\n")
        assert not made.drain()
        text = os.read(reader, PIPE_BYTES)
        while not text.endswith(f"{gap_text(95)}\n".encode()):
            text += os.read(reader, PIPE_BYTES)
        assert text.count(b"x" * 99) == 5


def test_a_full_disk_loses_lines_only() -> None:
    target = os.open("/dev/full", os.O_WRONLY)
    made = Output(target)
    made.write("lost\n")
    assert made.drain()
    reader, writer = os.pipe()
    os.dup2(writer, target)
    made.write("again\n")
    assert made.drain()
    assert os.read(reader, 1000) == f"again\n{gap_text(1)}\n".encode()
    for descriptor in (reader, writer, target):
        os.close(descriptor)


def test_an_operator_whose_log_is_not_read_goes_on_and_ends() -> None:
    with full_pipe() as (_, writer):
        command = [sys.executable, "-c", LOGGING]
        assert subprocess.run(command, stderr=writer, timeout=END_S, check=False).returncode == 0


def test_the_log_of_an_operator_is_whole_when_it_is_read() -> None:
    command = [sys.executable, "-c", LOGGING]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=END_S, check=True)
    lines = done.stderr.splitlines()
    assert [f"line {n}" in line for n, line in enumerate(lines[:1000])] == [True] * 1000
    assert lines[-1].startswith("ValueError: ")
