"""A member whose log is not read, cannot be written or has no reader serves and stops."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, once
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[[int], subprocess.Popen[bytes]]

PAGE_BYTES = 4096
STOP_S = 20.0
MALFORMED = "/grid/rest/maps/default/%zz"
DEBUG = "logging: {format: json, level: debug}"


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def start(tmp_path: Path, port: int) -> Iterator[Start]:
    """Give a function that starts a member with a line for each request and this log."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(log: int) -> subprocess.Popen[bytes]:
        file = tmp_path / "grid.yaml"
        text = configuration().replace("{port: 0}", f"{{port: {port}}}", 1)
        file.write_text(text.replace("logging: {format: json}", DEBUG))
        command = [sys.executable, "-m", "grid_member", "--config", str(file)]
        started.append(subprocess.Popen(command, stderr=log))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait(STOP_S)


async def answered(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when the member answers."""
    async with asyncio.timeout(30):
        while process.poll() is None:
            try:
                if (await once(port, "GET", "/grid/health/ready")).status == 200:
                    return
            except ConnectionError:
                pass
            await asyncio.sleep(0.02)
    raise AssertionError(f"ended with {process.returncode}")


async def served(port: int, times: int) -> None:
    """Make the member write some lines for each of its answers, which all come."""
    async with asyncio.timeout(20), await Wire.connect(port) as wire:
        for _ in range(times):
            assert (await wire.call("GET", "/grid/health/node-state")).status == 200
    for _ in range(20):
        async with asyncio.timeout(20):
            assert (await once(port, "GET", MALFORMED)).status == 400


async def stopped(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return await asyncio.to_thread(process.wait, STOP_S)


async def test_a_pipe_that_is_not_read(port: int, start: Start) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE_BYTES)
    process = start(writer)
    os.close(writer)
    try:
        await answered(port, process)
        await served(port, 200)
        assert await stopped(process) == 0
    finally:
        os.close(reader)


async def test_a_pipe_that_is_read_again(port: int, start: Start) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE_BYTES)
    process = start(writer)
    os.close(writer)
    await answered(port, process)
    await served(port, 200)
    reading = asyncio.create_task(asyncio.to_thread(lines_of, reader))
    assert await stopped(process) == 0
    lines = await reading
    assert sum(line["message"] == "request answered" for line in lines) >= 220
    assert lines[-1]["message"] == "stopped" or "repeated" in lines[-1]
    refused = [line for line in lines if line["message"] == "request refused"]
    assert sum(int(str(line.get("repeated", 1))) for line in refused) == 20
    assert len(refused) < 20


def lines_of(reader: int) -> list[dict[str, object]]:
    with open(reader, encoding="utf-8") as log:
        return [json.loads(line) for line in log]


async def test_a_full_disk(port: int, start: Start) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    process = start(full)
    os.close(full)
    await answered(port, process)
    await served(port, 20)
    assert await stopped(process) == 0


async def test_a_reader_that_has_gone(port: int, start: Start) -> None:
    reader, writer = os.pipe()
    process = start(writer)
    os.close(writer)
    await answered(port, process)
    os.close(reader)
    await served(port, 20)
    assert await stopped(process) == 0
