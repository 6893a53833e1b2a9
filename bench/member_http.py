"""How fast one member answers over loopback, in memory and with fsync before the answer.

    python bench/member_http.py [--seconds 3] [--connections 64]

Starts each member as a process of its own, drives it from this one over keep-alive connections
with one request in flight each, and prints rates with their ratio to the in-memory POST of the
same run. Only the ratios carry over to another machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = """
grid:
  network:
    port: {{port: {port}, auto-increment: false}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    rest-api: {{enabled: true, endpoint-groups: {{DATA: {{enabled: true}}}}}}
  map: {{default: {{}}}}
  queue: {{default: {{}}}}
  persistence: {{enabled: {persistent}, base-dir: {directory}}}
"""
VALUE = b"x" * 128


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def member(persistent: bool) -> Iterator[int]:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "grid.yaml"
        text = CONFIG.format(port=port, persistent=str(persistent).lower(), directory=directory)
        config.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "grid_member", "--config", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_for_port(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.05)
    raise SystemExit("the member did not start")


async def connection(port: int, request: bytes, until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    while time.monotonic() < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"unexpected answer: {head[:80]!r}")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        answered += 1
    writer.close()
    return answered


async def rate(port: int, request: bytes, connections: int, seconds: float) -> float:
    until = time.monotonic() + seconds
    counts = await asyncio.gather(*(connection(port, request, until) for _ in range(connections)))
    return sum(counts) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="time of each measurement")
    parser.add_argument("--connections", type=int, default=64, help="at once")
    options = parser.parse_args()
    path = b"/grid/rest/maps/default/key HTTP/1.1\r\nHost: bench\r\n"
    post = b"POST " + path + b"Content-Length: %d\r\n\r\n" % len(VALUE) + VALUE
    get = b"GET " + path + b"\r\n"
    rows: list[tuple[str, float]] = []
    for persistent in (False, True):
        kind = "fsynced" if persistent else "in memory"
        with member(persistent) as port:
            for name, request in (("POST", post), ("GET", get)):
                measured = asyncio.run(rate(port, request, options.connections, options.seconds))
                rows.append((f"{name} {kind}", measured))
    base = rows[0][1]
    for name, measured in rows:
        print(f"{name:16} {measured:10.0f}/s   {measured / base:5.2f} x POST in memory")


if __name__ == "__main__":
    main()
