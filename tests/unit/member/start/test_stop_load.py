"""SIGTERM amid many connections of every kind: what each client sees, and what is kept."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess
    from tests.unit.member.wire import Reply

    Start = Callable[..., MemberProcess]

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
OTHER_QUEUE = "/grid/rest/queues/two"
CLIENTS = 64
PIPELINING = 16
DEPTH = 12
FLOODING = 4
FLOOD_DEPTH = 400
PADDING_BYTES = 2000
"""Of a flood: more is sent than the member reads before it answers."""
WAITING = 32
SLOW = 16
ENOUGH = 2000
"""Answers, until the member is told to stop."""


@dataclass
class Seen:
    """What all the clients were answered."""

    written: dict[str, bytes] = field(default_factory=dict)
    offered: set[bytes] = field(default_factory=set)
    """Items whose offer was answered 200."""
    tried: set[bytes] = field(default_factory=set)
    polled: list[bytes] = field(default_factory=list)
    answers: int = 0


class Client:
    """One connection; it checks that each request has one answer, in order, up to a clean end."""

    def __init__(self, wire: Wire, name: str, seen: Seen, padding_bytes: int = 0) -> None:
        self.wire = wire
        self.padding = b"." * padding_bytes
        self.name = name
        self.seen = seen
        self.count = 0
        self.over = False

    def batch(self, size: int) -> list[tuple[str, str, bytes]]:
        """Return the next requests: kind, target and body."""
        found = []
        for _ in range(size):
            n, self.count = self.count, self.count + 1
            key = f"{self.name}-{n // 4}"
            text = f"{key}!".encode() + self.padding
            found.append(
                (
                    ("write", f"{MAP}/{key}", text),
                    ("read", f"{MAP}/{key}", text),
                    ("offer", QUEUE, text),
                    ("poll", f"{QUEUE}/0", b""),
                )[n % 4]
            )
        return found

    async def call(self, size: int) -> None:
        """Send some requests at once and take their answers."""
        batch = self.batch(size)
        self.wire.send(b"".join(made(*each) for each in batch))
        self.seen.tried |= {body for kind, _, body in batch if kind == "offer"}
        for each in batch:
            reply = await self.answer()
            if reply is None:
                return
            self.check(*each, reply)

    async def answer(self) -> Reply | None:
        """Return the next answer, None when the member ended the connection instead.

        A reset is an error; so is anything behind an answer that says that it is the last.
        """
        if self.over:
            return None
        try:
            reply = await self.wire.reply()
        except asyncio.IncompleteReadError as end:
            if end.partial:
                raise
            self.over = True
            return None
        self.seen.answers += 1
        if reply.header("Connection") == "close":
            self.over = True
            assert await self.wire.ended()
        return reply

    def check(self, kind: str, target: str, body: bytes, reply: Reply) -> None:
        if reply.status == 503:
            assert reply.header("X-Grid-Error")
        elif kind == "write":
            assert reply.status == 200
            self.seen.written[target] = body
        elif kind == "read":
            assert (reply.status, reply.body) == (200, body)
        elif kind == "offer":
            assert reply.status == 200
            self.seen.offered.add(body)
        else:
            assert reply.status in (200, 204)
            if reply.status == 200:
                self.seen.polled.append(reply.body)

    async def run(self, depth: int) -> None:
        """Go on until the member ends the connection."""
        while not self.over:
            await self.call(depth)
        await self.wire.close()


def made(kind: str, target: str, body: bytes) -> bytes:
    method = {"write": "POST", "read": "GET", "offer": "POST", "poll": "DELETE"}[kind]
    return request(method, target, body if method == "POST" else None)


async def waits(wire: Wire) -> None:
    """Poll a queue that stays empty: a stop ends it with the last answer."""
    reply = await wire.reply()
    assert (reply.status, reply.body, reply.header("Connection")) == (204, b"", "close")
    assert await wire.ended()
    await wire.close()


async def uploads(wire: Wire, body: bytes, stopped: asyncio.Event) -> None:
    """Send the rest of a body after the signal."""
    await stopped.wait()
    for at in range(0, len(body), 1 << 12):
        wire.send(body[at : at + (1 << 12)])
        await wire.writer.drain()
        await asyncio.sleep(0)
    reply = await wire.reply("POST")
    assert reply.status in (200, 503)
    # One that was answered before the signal came through ends when it is idle.
    assert reply.header("Connection") == "close" or reply.status == 200
    assert await wire.ended()
    await wire.close()


async def idles(wire: Wire) -> None:
    """Do nothing: it ends without an answer."""
    assert await wire.ended()
    await wire.close()


class Load:
    """Everything at once against one member."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.port = port
        self.context = context
        self.seen = Seen()
        self.stopped = asyncio.Event()
        self._all: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Return when there is something of everything under way."""
        for n in range(WAITING):
            wire = await self._connect()
            wire.send(request("DELETE", f"{OTHER_QUEUE}/600"))
            self._all.append(asyncio.create_task(waits(wire)))
            if n % 4 == 0:
                self._all.append(asyncio.create_task(idles(await self._connect())))
        body = bytes(1 << 16)
        for n in range(SLOW):
            wire = await self._connect()
            wire.send(request("POST", f"{MAP}/slow-{n}", body)[: -len(body) + n])
            self._all.append(asyncio.create_task(uploads(wire, body[n:], self.stopped)))
        for n in range(CLIENTS + PIPELINING):
            client = Client(await self._connect(), f"c{n}", self.seen)
            depth = 1 if n < CLIENTS else DEPTH
            self._all.append(asyncio.create_task(client.run(depth)))
        for n in range(FLOODING):
            client = Client(await self._connect(), f"f{n}", self.seen, PADDING_BYTES)
            self._all.append(asyncio.create_task(client.run(FLOOD_DEPTH)))
        await until(lambda: self.seen.answers >= ENOUGH)

    async def _connect(self) -> Wire:
        return await Wire.connect(self.port, context=self.context)

    async def end(self) -> None:
        """Return when every client has seen its end; raise what went wrong for one."""
        self.stopped.set()
        await asyncio.gather(*self._all)


async def stopped_under_load(process: MemberProcess, context: ssl.SSLContext | None = None) -> Seen:
    process.wait_for("ready")
    load = Load(process.port, context)
    await load.begin()
    process.process.send_signal(signal.SIGTERM)
    await load.end()
    assert await asyncio.to_thread(process.end) == 0
    assert [e for e in process.log if e["level"] not in ("info", "debug")] == []
    assert len(load.seen.polled) == len(set(load.seen.polled)), "an item was delivered twice"
    assert set(load.seen.polled) <= load.seen.tried
    return load.seen


def text(fast_path: bool, extra: str = "") -> str:
    switch = f"  http: {{lane: {{enabled: {str(fast_path).lower()}}}, max-connections: 1000}}\n"
    return configuration(extra=switch + extra)


BOTH_PATHS = pytest.mark.parametrize("fast_path", [True, False], ids=["fast-path", "no-fast-path"])


@BOTH_PATHS
async def test_in_memory_every_client_sees_a_clean_end(
    member_process: Start, fast_path: bool
) -> None:
    seen = await stopped_under_load(member_process(text(fast_path)))
    assert seen.answers >= ENOUGH


@BOTH_PATHS
async def test_on_disk_all_that_was_answered_is_there_afterwards(
    member_process: Start, tmp_path: Path, fast_path: bool
) -> None:
    durable = text(fast_path, f"  persistence: {{enabled: true, base-dir: {tmp_path}/data}}\n")
    seen = await stopped_under_load(member_process(durable))
    again = member_process(durable)
    again.wait_for("ready")
    async with await Wire.connect(again.port) as wire:
        for target, value in seen.written.items():
            assert (await wire.call("GET", target)).body == value
        left = []
        while (reply := await wire.call("DELETE", f"{QUEUE}/0")).status == 200:
            left.append(reply.body)
        assert reply.status == 204
    assert len(left) == len(set(left))
    assert not set(left) & set(seen.polled), "delivered, and there again"
    assert seen.offered - set(seen.polled) <= set(left), "an item is lost"
    assert set(left) <= seen.tried
    assert (await once(again.port, "GET", f"{OTHER_QUEUE}/size")).body == b"0"
