"""A real nats-server for one test, and a peer that says only what it is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from typing import TYPE_CHECKING, Final

from grid_member.engine.server.binary import find_server
from tests.unit.serving import close_server
from tests.unit.waiting import until

if TYPE_CHECKING:
    import signal
    from pathlib import Path

USER: Final = "grid"
PASSWORD: Final = "a-password"
DEADLINE_S: Final = 20.0
MAX_PAYLOAD_BYTES: Final = 9 << 20
INFO: Final = b'INFO {"server_name":"n","version":"2.15.1","max_payload":1000,"headers":true}\r\n'


class Served:
    """A nats-server in a directory, on another port after each start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._config = directory / "nats.conf"
        self._config.write_text(
            f"""
            listen: "127.0.0.1:-1"
            ports_file_dir: "{directory}"
            max_payload: 10MB
            authorization {{ user: {USER}, password: {PASSWORD} }}
            jetstream {{ store_dir: "{directory}/jetstream" }}
            """
        )

    def start(self) -> None:
        self._process = subprocess.Popen(
            [find_server(None), "-c", self._config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def address(self) -> tuple[str, int] | None:
        """Where the process of now listens: a killed one leaves its file behind."""
        if self._process is None:
            return None
        ports = self._directory / f"nats-server_{self._process.pid}.ports"
        try:
            url = json.loads(ports.read_text())["nats"][0]
        except (OSError, ValueError):
            return None
        host, port = url.removeprefix("nats://").rsplit(":", 1)
        return host, int(port)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Scripted:
    """A peer that sends what a test wants and keeps what it was sent."""

    def __init__(self) -> None:
        self.got = b""
        self.connections = 0
        self.says = INFO
        """What every client hears first."""
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    async def close(self) -> None:
        assert self._server is not None
        await close_server(self._server)
        for writer in self._writers:
            writer.transport.abort()

    async def say(self, data: bytes) -> None:
        writer = self._writers[-1]
        writer.write(data)
        await writer.drain()

    def hang_up(self) -> None:
        self._writers[-1].transport.abort()

    def end(self) -> None:
        """Hang up once all that was said is sent."""
        self._writers[-1].close()

    async def hears(self, text: bytes, times: int = 1) -> None:
        await until(lambda: self.got.count(text) >= times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        writer.write(self.says)
        try:
            while data := await reader.read(1 << 16):
                self.got += data
        except OSError:
            pass
        finally:
            writer.close()
