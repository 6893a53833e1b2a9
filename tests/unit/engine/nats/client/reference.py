"""The protocol once more, read slowly from all bytes at once: `wire.Parser` is held against it."""

from __future__ import annotations

import json
import re
from typing import Final

from grid_member.engine.nats.client.wire import (
    MAX_HEADER_BYTES,
    MAX_LINE_BYTES,
    Event,
    Message,
    Ok,
    Ping,
    Pong,
    ServerError,
    ServerInfo,
)

_MSG: Final = re.compile(rb"MSG ([^ ]+) ([0-9]+)(?: ([^ ]*))? ([0-9]+)", re.DOTALL)
_HMSG: Final = re.compile(rb"HMSG ([^ ]+) ([0-9]+)(?: ([^ ]*))? ([0-9]+) ([0-9]+)", re.DOTALL)
_SINGLE: Final[dict[bytes, Event]] = {b"PING": Ping(), b"PONG": Pong(), b"+OK": Ok()}


def encoded(event: Event) -> bytes:
    """Return what a server writes for an event."""
    match event:
        case Message(subject, reply, headers, payload, sid):
            to = b"%b %d%b" % (subject, sid, b" " + reply if reply else b"")
            if not headers:
                return b"MSG %b %d\r\n%b\r\n" % (to, len(payload), payload)
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            return b"HMSG %b %b\r\n%b%b\r\n" % (to, sizes, headers, payload)
        case ServerInfo():
            fields = {"server_name": "n1", "max_payload": event.max_payload_bytes}
            return b"INFO %b \r\n" % json.dumps(fields).encode()
        case ServerError(text):
            return b"-ERR '%b'\r\n" % text.encode()
        case _:
            return next(line for line, known in _SINGLE.items() if known == event) + b"\r\n"


def parsed(data: bytes, limit_bytes: int) -> tuple[list[Event], bool]:
    """Return the events, and whether what comes after them is refused."""
    events: list[Event] = []
    while True:
        line, end, rest = data.partition(b"\r\n")
        if not end:
            return events, len(line) > MAX_LINE_BYTES + 1
        if len(line) > MAX_LINE_BYTES:
            return events, True
        try:
            event, data = _one(line, rest, limit_bytes)
        except ValueError:
            return events, True
        if event is None:
            return events, False
        events.append(event)


def _one(line: bytes, rest: bytes, limit_bytes: int) -> tuple[Event | None, bytes]:
    if found := _MSG.fullmatch(line):
        subject, sid, reply, size = found.groups()
        body, after = _body(rest, 0, int(size), limit_bytes)
        if body is None:
            return None, b""
        return Message(subject, reply or b"", b"", body, int(sid)), after
    if found := _HMSG.fullmatch(line):
        subject, sid, reply, head, size = found.groups()
        body, after = _body(rest, int(head), int(size), limit_bytes)
        if body is None:
            return None, b""
        headers, payload = body[: int(head)], body[int(head) :]
        if not (headers.startswith(b"NATS/1.0") and headers.endswith(b"\r\n\r\n")):
            raise ValueError
        return Message(subject, reply or b"", headers, payload, int(sid)), after
    return _plain(line), rest


def _plain(line: bytes) -> Event:
    operation, _, text = line.partition(b" ")
    if operation == b"-ERR":
        return ServerError(text.decode("utf-8", "replace").strip("' "))
    if operation != b"INFO":
        if line not in _SINGLE:
            raise ValueError
        return _SINGLE[line]
    fields = json.loads(text)
    if not isinstance(fields, dict) or not isinstance(fields.get("max_payload"), int):
        raise ValueError
    if fields["max_payload"] < 0:
        raise ValueError
    return ServerInfo(fields["max_payload"])


def _body(rest: bytes, head: int, size: int, limit_bytes: int) -> tuple[bytes | None, bytes]:
    if head > MAX_HEADER_BYTES or not 0 <= size - head <= limit_bytes:
        raise ValueError
    if len(rest) < size + 2:
        return None, b""
    if rest[size : size + 2] != b"\r\n":
        raise ValueError
    return rest[:size], rest[size + 2 :]
