"""The thread that writes the log: readers that hang or go, full disks, what is dropped."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from grid_member.telemetry import writer as log_writer
from grid_member.telemetry.writer import LINE_OVERHEAD_BYTES, LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

PIPE_BYTES = 4096
PATIENCE_S = 20.0


def gap(lines: int) -> bytes:
    return b"lost %d\n" % lines


class Pipe:
    """A pipe of one page, which is read when the test wants it."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def full(self) -> bool:
        held = bytearray(4)
        fcntl.ioctl(self.reader, 0x541B, held)  # FIONREAD
        return int.from_bytes(held, "little") == PIPE_BYTES

    def read_until(self, end: bytes) -> bytes:
        text = b""
        while not text.endswith(end):
            text += os.read(self.reader, PIPE_BYTES)
        return text

    def close_reader(self) -> None:
        os.close(self.reader)
        self.reader = -1

    def close(self) -> None:
        # A thread may still write there: to the end of what it was given, not to another file.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.writer)
        os.close(null)
        if self.reader >= 0:
            os.close(self.reader)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def wait_for(holds: object) -> None:
    assert callable(holds)
    ends_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_s
        time.sleep(0.001)


def started(descriptor: int) -> LogWriter:
    writer = LogWriter(descriptor, gap)
    writer.start()
    return writer


def test_lines_are_written_in_their_order(pipe: Pipe) -> None:
    writer = started(pipe.writer)
    for n in range(200):
        writer.put(b"%d\n" % n)
    assert writer.flush()
    assert pipe.read_until(b"199\n").split() == [b"%d" % n for n in range(200)]
    assert writer.dropped_count == 0


def test_a_reader_that_hangs_blocks_nobody_and_is_told_what_it_missed(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = b"x" * 99 + b"\n"
    room = 500 * (len(line) + LINE_OVERHEAD_BYTES)
    monkeypatch.setattr(log_writer, "MAX_WAITING_BYTES", room)
    writer = started(pipe.writer)
    for _ in range(2000):
        writer.put(line)
    wait_for(pipe.full)
    dropped = writer.dropped_count
    assert 1400 <= dropped <= 1500
    text = pipe.read_until(gap(dropped))
    assert text.count(line) == 2000 - dropped
    writer.put(b"behind\n")
    assert pipe.read_until(b"behind\n") == b"behind\n"
    assert writer.dropped_count == dropped


def test_a_line_behind_a_gap_stands_behind_its_report(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_WAITING_BYTES", 4 * PIPE_BYTES)
    writer = started(pipe.writer)
    long = b"x" * (2 * PIPE_BYTES) + b"\n"
    writer.put(long)
    wait_for(pipe.full)
    writer.put(long)  # no room for it
    writer.put(b"short\n")
    assert pipe.read_until(b"short\n") == long + gap(1) + b"short\n"


def test_a_flush_does_not_wait_for_a_reader_that_hangs(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "FLUSH_S", 0.05)
    writer = started(pipe.writer)
    writer.put(b"x" * (2 * PIPE_BYTES) + b"\n")
    wait_for(pipe.full)
    assert not writer.flush()


def test_a_full_disk_loses_lines_and_is_written_to_again(pipe: Pipe) -> None:
    target = os.open("/dev/full", os.O_WRONLY)
    try:
        writer = started(target)
        for n in range(3):
            writer.put(b"%d\n" % n)
        assert writer.flush()
        assert writer.dropped_count == 3
        os.dup2(pipe.writer, target)
        writer.put(b"again\n")
        assert pipe.read_until(b"again\n") == gap(3) + b"again\n"
    finally:
        os.close(target)


def test_a_reader_that_has_gone_loses_lines_only(pipe: Pipe) -> None:
    pipe.close_reader()
    writer = started(pipe.writer)
    writer.put(b"unread\n")
    assert writer.flush()
    assert writer.dropped_count == 1


def test_a_line_behind_a_torn_one_begins_a_line(pipe: Pipe) -> None:
    other = Pipe()
    target = os.dup(pipe.writer)
    try:
        writer = started(target)
        writer.put(b"torn" * PIPE_BYTES + b"\n")
        wait_for(pipe.full)
        # The write fails in the middle: its reader goes.
        pipe.close_reader()
        wait_for(lambda: writer.dropped_count == 1)
        os.dup2(other.writer, target)
        writer.put(b"next\n")
        assert other.read_until(b"next\n") == b"\n" + gap(1) + b"next\n"
    finally:
        os.close(target)
        other.close()


def test_a_descriptor_that_does_not_block_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer, False)
    writer = started(pipe.writer)
    line = b"x" * (3 * PIPE_BYTES) + b"\n"
    writer.put(line)
    wait_for(pipe.full)
    assert pipe.read_until(b"\n") == line
    assert writer.dropped_count == 0


def test_many_threads_lose_nothing_and_mix_no_lines(pipe: Pipe) -> None:
    writer = started(pipe.writer)

    def write(name: int) -> None:
        for n in range(300):
            writer.put(b"%d-%d\n" % (name, n))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    text = b""
    while text.count(b"\n") < 1200:
        text += os.read(pipe.reader, PIPE_BYTES)
    expected = sorted(b"%d-%d" % (w, n) for w in range(4) for n in range(300))
    assert sorted(text.split()) == expected
