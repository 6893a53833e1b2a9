"""Plays the rows of the conformance table on a member under test."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from tests.unit.member.conformance.language import (
    UUID,
    Also,
    Ask,
    Begin,
    Call,
    End,
    Event,
    Leave,
    Until,
    Want,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.unit.member.conformance.language import Row, Step
    from tests.unit.member.wire import Reply, Wire

UNTIL_TIMEOUT_S = 20.0
UNTIL_PERIOD_S = 0.01
CLUSTER_NAME = b"dev"
BEGUN = re.compile(rf'"uuid":"({UUID})"\}}'.encode())
BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def difference(reply: Reply, want: Want, method: str) -> str | None:
    """Return what an answer has other than wanted, None when it is the wanted one."""
    shown = f"{reply.status} {reply.headers} {reply.body[:300]!r}"
    if reply.status != want.status:
        return f"status {want.status} wanted: {shown}"
    if want.status == 100:
        return f"no header wanted: {shown}" if reply.headers else None
    fits = (
        want.body.fullmatch(reply.body) is not None
        if isinstance(want.body, re.Pattern)
        else reply.body == (b"" if method == "HEAD" else want.body)
    )
    if method != "HEAD" and not fits:
        return f"body {want.body!r} wanted: {shown}"
    if isinstance(want.body, bytes) and reply.header("Content-Length") != str(len(want.body)):
        return f"length of {want.body!r} wanted: {shown}"
    return _headers_differ(reply, want, shown)


def _headers_differ(reply: Reply, want: Want, shown: str) -> str | None:
    wanted = dict(want.headers)
    if want.content_type is not None:
        wanted["Content-Type"] = want.content_type
    if want.closes:
        wanted["Connection"] = "close"
    others = {k: v for k, v in reply.headers if k not in ("Date", "Content-Length")}
    reason = others.pop("X-Grid-Error", None)
    operation = others.pop("X-Grid-Operation", "")
    if not re.fullmatch(UUID if want.begins else "", operation):
        return f"X-Grid-Operation {'' if want.begins else 'not '}wanted: {shown}"
    if reason is not None and not re.fullmatch(r"[ -~]{1,256}", reason):
        return f"printable reason wanted: {shown}"
    if (reason is not None) != want.explains:
        return f"X-Grid-Error {'' if want.explains else 'not '}wanted: {shown}"
    if others != wanted or len(reply.headers) != len({k.lower() for k, _ in reply.headers}):
        return f"headers {wanted} wanted: {shown}"
    if not re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", reply.header("Date") or ""):
        return f"Date wanted: {shown}"
    return None


def with_credentials(body: bytes, credentials: bytes) -> bytes:
    """Return the body with others than the cluster's name and any password, if it has those."""
    name, first, rest = body.partition(b"&")
    password, second, rest = rest.partition(b"&")
    try:
        password.decode()
        unquote_to_bytes(password).decode()
    except UnicodeDecodeError:
        return body
    if not first or unquote_to_bytes(name) != CLUSTER_NAME or BAD_ESCAPE.search(password):
        return body
    return credentials + second + rest


class Play:
    """One row on its way."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Wire]],
        names: dict[str, str],
        stopped: Callable[[], int],
        credentials: bytes | None,
    ) -> None:
        """Begin.

        Args:
            connect: opens a connection to the member.
            names: what stands in braces in the paths.
            stopped: waits for the end of the member and returns its exit code.
            credentials: what takes the place of the cluster's name and the second parameter.
        """
        self._connect = connect
        self._names = names
        self._stopped = stopped
        self._credentials = credentials
        self._wire: Wire | None = None
        self._begun: list[tuple[Wire, str]] = []

    async def row(self, row: Row) -> None:
        try:
            for number, step in enumerate(row.steps, 1):
                try:
                    problem = await self._step(step)
                except (ConnectionError, asyncio.IncompleteReadError) as error:
                    problem = f"no answer: {error!r}"
                assert problem is None, f"{row.reference}, step {number} {step}: {problem}"
        finally:
            for wire, _ in self._begun:
                await wire.close()
            await self._drop()

    async def _drop(self) -> None:
        if self._wire is not None:
            await self._wire.close()
            self._wire = None

    async def _step(self, step: Step) -> str | None:
        match step:
            case Call():
                return await self._call(step)
            case Also():
                return await self._also(step)
            case Until():
                return await self._until(step)
            case Begin():
                wire = await self._connect()
                wire.send(self._bytes(step.ask))
                self._begun.append((wire, step.ask.method))
            case End():
                return await self._end(step)
            case Leave():
                await self._leave(step)
            case Event.RECONNECT:
                await self._drop()
            case Event.STOPPED:
                code = await asyncio.to_thread(self._stopped)
                return None if code == 0 else f"exit code {code}"
        return None

    def _bytes(self, ask: Ask) -> bytes:
        path = ask.path
        for name, value in self._names.items():
            path = path.replace(f"{{{name}}}", value)
        if ask.raw is not None:
            return ask.raw.replace(b"{path}", path.encode("latin-1"))
        lines = [f"{ask.method} {path} HTTP/1.1", "Host: member"]
        lines += [f"{name}: {value}" for name, value in ask.headers]
        body = ask.body
        if body is not None:
            body = body if self._credentials is None else with_credentials(body, self._credentials)
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")

    async def _reply(self, ask: Ask) -> Reply:
        if self._wire is None:
            self._wire = await self._connect()
        self._wire.send(self._bytes(ask))
        return await self._wire.reply(ask.method)

    async def _call(self, step: Call) -> str | None:
        reply = await self._reply(step.ask)
        return await self._compared(reply, step.want, step.ask.method)

    async def _also(self, step: Also) -> str | None:
        assert self._wire is not None
        self._wire.send(step.data)
        reply = await self._wire.reply(step.method)
        return await self._compared(reply, step.want, step.method)

    async def _compared(self, reply: Reply, want: Want, method: str) -> str | None:
        problem = difference(reply, want, method)
        begun = BEGUN.search(reply.body)
        if begun is not None:
            self._names["begun"] = begun[1].decode()
        if problem is None and want.closes:
            assert self._wire is not None
            ended = await self._wire.ended()
            await self._drop()
            return None if ended else "bytes came after the last answer"
        return problem

    async def _until(self, step: Until) -> str | None:
        problem: str | None = "never asked"
        try:
            async with asyncio.timeout(UNTIL_TIMEOUT_S):
                while problem is not None:
                    reply = await self._reply(step.ask)
                    problem = difference(reply, step.want, step.ask.method)
                    await asyncio.sleep(UNTIL_PERIOD_S)
        except TimeoutError:
            return f"never: {problem}"
        return None

    async def _end(self, step: End) -> str | None:
        wire, method = self._begun.pop(0)
        try:
            return difference(await wire.reply(method), step.want, method)
        finally:
            await wire.close()

    async def _leave(self, step: Leave) -> None:
        wire, _ = self._begun.pop(0)
        if step is Leave.HALF:
            wire.writer.write_eof()
            assert await wire.ended(), "a client that sends no more is gone"
        elif step is Leave.RST:
            plain: socket.socket = wire.writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.writer.transport.abort()
        await wire.close()
