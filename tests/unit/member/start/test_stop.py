"""A graceful stop amid polls, pipelines, uploads and clients that do not read."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from grid_member import EngineError, StopError, start_member
from grid_member.engine.lmdb.wal import Wal
from grid_member.start import handle
from tests.unit.member.running import configuration
from tests.unit.member.start.handles import config, is_free, port_of
from tests.unit.member.wire import Reply, Wire, once, request
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

    Start = Callable[[str], MemberProcess]

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"


async def test_waiting_polls_end_with_204_at_a_stop() -> None:
    member = await start_member(config())
    wires = [await Wire.connect(port_of(member)) for _ in range(100)]
    for wire in wires:
        wire.send(request("DELETE", f"{QUEUE}/60"))
    reply = await once(port_of(member), "GET", "/grid/health/ready")
    assert reply.status == 200
    stopping = asyncio.create_task(member.stop())
    for wire in wires:
        reply = await wire.reply()
        assert (reply.status, reply.header("Connection")) == (204, "close")
        assert await wire.ended()
        await wire.close()
    await stopping


async def replies_until_the_end(wire: Wire, count: int) -> list[Reply]:
    """Return the answers to count requests, fewer when the member closed between two answers."""
    replies: list[Reply] = []
    while len(replies) < count:
        try:
            replies.append(await wire.reply("POST"))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            break
    return replies


async def pipeline(port: int, name: int, depth: int, answered: list[str]) -> list[int]:
    """Write without waiting for single answers until the member closes; return the statuses."""
    statuses: list[int] = []
    async with await Wire.connect(port) as wire:
        while True:
            first = len(statuses)
            batch = range(first, first + depth)
            wire.send(b"".join(request("POST", f"{MAP}/{name}-{n}", b"%d" % n) for n in batch))
            replies = await replies_until_the_end(wire, depth)
            statuses += [reply.status for reply in replies]
            answered += [
                f"{name}-{n}"
                for n, reply in zip(batch, replies, strict=False)
                if reply.status == 200
            ]
            if len(replies) < depth:
                return statuses


class Load:
    """Pipelining writers that go on until the member closes."""

    def __init__(self, port: int) -> None:
        self.answered: list[str] = []
        self._clients = [
            asyncio.create_task(pipeline(port, name, 20, self.answered)) for name in range(8)
        ]

    async def under_way(self) -> None:
        await until(lambda: len(self.answered) >= 500)

    async def statuses(self) -> list[list[int]]:
        """Return, when the member has closed, what each client was answered in turn."""
        return await asyncio.gather(*self._clients)

    async def lost(self, port: int) -> list[str]:
        """Return the keys that were answered and that the member on the port has not."""
        async with await Wire.connect(port) as wire:
            return [
                key
                for key in self.answered
                if (await wire.call("GET", f"{MAP}/{key}")).body != key.split("-")[1].encode()
            ]


def are_in_order(statuses: list[int]) -> bool:
    """Tell whether what came too late is refused, and after a refusal nothing is accepted."""
    return statuses == sorted(statuses) and set(statuses) <= {200, 503}


async def test_a_stop_under_load_loses_no_answer(tmp_path: Path) -> None:
    member = await start_member(config(directory=tmp_path))
    load = Load(port_of(member))
    await load.under_way()
    await member.stop()
    assert all(map(are_in_order, await load.statuses()))
    async with await start_member(config(directory=tmp_path)) as again:
        assert await load.lost(port_of(again)) == []


async def test_a_signal_under_load_loses_no_answer(member_process: Start, tmp_path: Path) -> None:
    text = configuration(extra=f"  persistence: {{enabled: true, base-dir: {tmp_path}/data}}\n")
    process = member_process(text)
    process.wait_for("ready")
    load = Load(process.port)
    await load.under_way()
    process.process.send_signal(signal.SIGTERM)
    assert all(map(are_in_order, await load.statuses()))
    assert await asyncio.to_thread(process.end) == 0
    again = member_process(text)
    again.wait_for("ready")
    assert await load.lost(again.port) == []


async def test_an_upload_under_way_is_answered() -> None:
    member = await start_member(config())
    async with await Wire.connect(port_of(member)) as wire:
        wire.send(request("POST", f"{MAP}/begun", bytes(1 << 20))[:-1])
        assert (await once(port_of(member), "GET", "/grid/health/ready")).status == 200
        stopping = asyncio.create_task(member.stop())
        await eventually(lambda: closed(port_of(member)))
        wire.send(b"\0")
        reply = await wire.reply("POST")
        assert (reply.status, reply.header("Connection")) == (503, "close")
        assert await wire.ended()
    await stopping


async def test_idle_connections_do_not_hold_up_a_stop() -> None:
    member = await start_member(config())
    used, fresh, begun, deaf = [await Wire.connect(port_of(member)) for _ in range(4)]
    assert (await used.call("GET", "/grid/health/ready")).status == 200
    begun.send(b"GET /grid/health/ready HTTP/1.1\r\nHo")
    stopping = asyncio.create_task(member.stop())
    for wire in (used, fresh, begun):
        assert await wire.ended()
        await wire.close()
    # A pool may not look at a connection until it needs it.
    await asyncio.wait_for(stopping, 10)
    await deaf.close()


async def queued(port: int, at_least: int) -> bool:
    return int((await once(port, "GET", f"{QUEUE}/size")).body) >= at_least


async def closed(port: int) -> bool:
    return await asyncio.to_thread(is_free, port)


async def emptied(port: int) -> bool:
    return (await once(port, "GET", f"{QUEUE}/size")).body == b"0"


class Flood:
    """A client that sends without end, and reads only when it is told to."""

    def __init__(self, port: int, data: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self._data = data
        self._sender = threading.Thread(target=self._send)
        self._sender.start()

    def _send(self) -> None:
        try:
            while True:
                self.socket.sendall(self._data)
        except OSError:
            """The test closed the socket."""

    def read(self) -> bytes:
        """Return everything up to the end of the other side.

        Raises:
            ConnectionResetError: the end was none.
        """
        return b"".join(iter(lambda: self.socket.recv(1 << 16), b""))

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self._sender.join()


async def test_a_client_that_goes_on_sending_reads_all_its_answers() -> None:
    member = await start_member(config())
    flood = Flood(port_of(member), request("POST", QUEUE, b"item"))
    await eventually(lambda: queued(port_of(member), 100))
    stopping = asyncio.create_task(member.stop())
    data = await asyncio.to_thread(flood.read)
    flood.close()
    await stopping
    *answers, rest = data.split(b"\r\n\r\n")
    assert rest == b""
    assert len(answers) >= 100
    assert all(a.startswith((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 ")) for a in answers)
    assert not any(b"Connection: close" in a for a in answers[:-1])


async def test_a_polled_item_reaches_a_client_that_goes_on_sending() -> None:
    item = bytes(range(256)) * (8 << 10)
    member = await start_member(config())
    assert (await once(port_of(member), "POST", QUEUE, item)).status == 200
    flood = Flood(port_of(member), request("DELETE", f"{QUEUE}/60"))
    await eventually(lambda: emptied(port_of(member)))
    stopping = asyncio.create_task(member.stop())
    data = await asyncio.to_thread(flood.read)
    flood.close()
    await stopping
    assert item in data


class StuckDisk:
    """A disk that answers no commit until it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        append = Wal.append

        def stuck(tail: Wal, first: int, values: list[bytes], size_bytes: int) -> bool:
            self.asked.set()
            self.answers.wait()
            return append(tail, first, values, size_bytes)

        monkeypatch.setattr(Wal, "append", stuck)


async def test_a_disk_that_does_not_answer_ends_a_stop_but_not_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "DISK_GRACE_S", 0.1)
    monkeypatch.setattr(handle, "HURRY_DISK_GRACE_S", 0.1)
    member = await start_member(config(directory=tmp_path))
    assert (await once(port_of(member), "POST", f"{MAP}/k", b"old")).status == 200
    disk = StuckDisk(monkeypatch)
    waiting = asyncio.create_task(once(port_of(member), "POST", f"{MAP}/k", b"new"))
    await until(disk.asked.is_set)
    async with asyncio.timeout(10):
        with pytest.raises(StopError, match="the disk did not confirm the last commit in time"):
            await member.stop()
    assert is_free(port_of(member))
    assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], Exception)
    # What may still be written to belongs to nobody else.
    with pytest.raises(EngineError, match="in use"):
        await start_member(config(directory=tmp_path))
    disk.answers.set()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    async with await start_member(config(directory=tmp_path)) as again:
        assert (await once(port_of(again), "GET", f"{MAP}/k")).body in (b"old", b"new")


async def test_the_thread_of_a_disk_that_does_not_answer_keeps_no_program_alive() -> None:
    code = """
import asyncio, threading
from grid_member.engine.lmdb.inbox import Writer
async def main():
    Writer(threading.Event().wait, "stuck")
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    async with asyncio.timeout(20):
        assert await process.wait() == 0
