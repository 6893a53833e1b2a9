"""The client protocol of NATS as bytes: what is read becomes events, what is meant becomes bytes.

Nothing here knows a socket or a loop, so that the client of the loop and the one of a thread share
it. Source: the protocol page of the NATS documentation and ADR-4 (headers) of its architecture.

A server writes its operations in upper case with single blanks, two only around a reply that is
empty; anything else is refused, for a stream that is out of step must not be read on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from grid_member.engine.nats.client.errors import WireError

MAX_LINE_BYTES: Final = 64 * 1024
"""The longest control line; INFO, which names the servers of the cluster, is the longest."""
MAX_HEADER_BYTES: Final = 64 * 1024
"""The longest block of headers that is taken."""
MAX_OWN_HEADER_BYTES: Final = MAX_HEADER_BYTES // 2
"""The longest block that is published: a server may add headers of its own."""
MAX_PAYLOAD_BYTES: Final = 64 << 20
"""The largest payload a nats-server can be told to take. It is read whatever this member may send:
others may be allowed more."""
MAX_SUBJECT_BYTES: Final = 1024
"""A subject with its reply subject stays below the 4096 bytes that a server reads as a line."""

NO_RESPONDERS: Final = 503
"""The status of an answer that says that nobody listens to the subject."""

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

_CRLF: Final = b"\r\n"
_HEADER_LINE: Final = b"NATS/1.0"
_STATUS_AT: Final = len(_HEADER_LINE) + 1
_HEADERS_END: Final = b"\r\n\r\n"


class Message(NamedTuple):
    """One message of a subscription."""

    subject: bytes
    reply: bytes
    """Where an answer goes; empty: none is expected."""
    headers: bytes
    """The block as it came, with its first line and its empty last one; empty: no headers."""
    payload: bytes
    sid: int
    """The number that the subscription was given by `subscription`."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself: first of all, and again whenever it likes."""

    max_payload_bytes: int
    """What the server takes as headers and payload together before it hangs up."""


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error that a server reports; it hangs up after most of them."""

    text: str


@dataclass(frozen=True, slots=True)
class Ping:
    """The server wants a PONG."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The server has read everything up to our PING."""


@dataclass(frozen=True, slots=True)
class Ok:
    """The server took a line; only said to clients that are verbose."""


Event = Message | ServerInfo | ServerError | Ping | Pong | Ok


class Parser:
    """Turns the bytes of a server into events, however they are split.

    What it holds is bounded by one line, one block of headers and one payload. The pieces of a
    message are joined once, when the last one is here.
    """

    def __init__(self, max_payload_bytes: int) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return what is complete now, in the order of the server.

        Raises:
            WireError: This is no NATS, or longer than allowed. The parser is of no use any more,
                and what came before in these bytes is lost: the connection has to be given up.
        """
        if self._pieces:
            self._pieces.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed_bytes:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
        events: list[Event] = []
        try:
            at, self._needed_bytes = self._read(data, events)
        except ValueError as error:
            raise WireError("nats-server sent a line that cannot be read") from error
        if at < len(data):
            self._pieces = [data[at:]]
            self._held_bytes = len(data) - at
        return events

    def _read(self, data: bytes, events: list[Event]) -> tuple[int, int]:
        """Append what is complete; return where the rest begins and how long it has to become.

        Nearly all lines are MSG: they are read here, with as few steps as Python can do it in.
        """
        at = 0
        length = len(data)
        append = events.append
        while (end := data.find(_CRLF, at)) >= 0:
            if end - at > MAX_LINE_BYTES:
                raise _out_of_step()
            parts = data[at:end].split(b" ")
            start = end + 2
            if parts[0] == b"MSG":
                count = len(parts)
                numbers = parts[2] + parts[-1] if 4 <= count <= 5 else b""
                # The servers' own answers have a reply that is empty: two spaces.
                if not numbers.isdigit() or b"" in parts[:3]:
                    raise _out_of_step()
                stop = start + int(parts[-1])
                if stop - start > self._max_payload_bytes:
                    raise _too_long()
                if stop + 2 > length:
                    return at, stop + 2 - at
                if data[stop : stop + 2] != _CRLF:
                    raise _out_of_step()
                reply = parts[3] if count == 5 else b""
                append(Message(parts[1], reply, b"", data[start:stop], int(parts[2])))
                at = stop + 2
            elif parts[0] == b"HMSG":
                message, after = self._with_headers(data, start, parts)
                if message is None:
                    return at, after - at
                append(message)
                at = after
            else:
                append(_control(parts[0], data[at:end]))
                at = start
        return at, _longer_line(length - at)

    def _with_headers(
        self, data: bytes, start: int, parts: list[bytes]
    ) -> tuple[Message | None, int]:
        """Return the message whose body begins at `start`, None if it is not complete; its end."""
        if not 5 <= len(parts) <= 6 or b"" in parts[:3]:
            raise _out_of_step()
        *names, header_digits, digits = parts
        if not (names[2] + header_digits + digits).isdigit():
            raise _out_of_step()
        body = start + int(header_digits)
        stop = start + int(digits)
        if body - start > MAX_HEADER_BYTES or stop - body > self._max_payload_bytes:
            raise _too_long()
        after = stop + 2
        if after > len(data) and stop >= body:
            return None, after
        headers = data[start:body]
        if stop < body or data[stop:after] != _CRLF or not _is_headers(headers):
            raise _out_of_step()
        reply = names[3] if len(names) == 4 else b""
        return Message(names[1], reply, headers, data[body:stop], int(names[2])), after


def status(headers: bytes) -> int | None:
    """Return the status of a server's own message, 503 for one; None in one that was published."""
    digits = headers[_STATUS_AT : _STATUS_AT + 3]
    if not headers.startswith(_HEADER_LINE + b" ") or not digits.isdigit():
        return None
    return int(digits)


def is_no_responders(message: Message) -> bool:
    """Whether this is the answer of the server itself: nobody listens to the subject."""
    return bool(message.headers) and status(message.headers) == NO_RESPONDERS


def publication(subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> bytes:
    """Return the bytes that publish a payload; headers are a whole block with both its ends.

    Raises:
        WireError: A subject or the headers would be read as something else.
    """
    to = b"%b %b" % (_subject(subject), _subject(reply)) if reply else _subject(subject)
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (to, len(payload), payload)
    if not _is_headers(headers) or len(headers) > MAX_OWN_HEADER_BYTES:
        raise WireError(
            "headers begin with NATS/1.0, end with an empty line and have at most 32 KiB"
        )
    total = len(headers) + len(payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (to, len(headers), total, headers, payload)


def subscription(subject: bytes, sid: int) -> bytes:
    """Return the bytes that ask for the messages of a subject, which may have wildcards.

    Raises:
        WireError: The subject would be read as something else.
    """
    return b"SUB %b %d\r\n" % (_subject(subject), sid)


def unsubscription(sid: int) -> bytes:
    """Return the bytes that end a subscription; what is on its way still comes."""
    return b"UNSUB %d\r\n" % sid


def greeting(user: str, password: str, name: str) -> bytes:
    """Return the bytes that answer the first INFO: who we are and what we can."""
    options = {
        "verbose": False,
        "pedantic": False,
        "user": user,
        "pass": password,
        "name": name,
        "lang": "python",
        "version": "1",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
    }
    return b"CONNECT %b\r\n" % json.dumps(options).encode()


def _subject(subject: bytes) -> bytes:
    if len(subject) > MAX_SUBJECT_BYTES or subject.split() != [subject]:
        raise WireError(f"a subject has no blanks and 1 to {MAX_SUBJECT_BYTES} bytes")
    return subject


def _is_headers(block: bytes) -> bool:
    return block.startswith(_HEADER_LINE) and block.endswith(_HEADERS_END)


def _longer_line(begun_bytes: int) -> int:
    """Return how long a line has to become that has begun with so much and has no end yet."""
    # One more than the longest line may be here: the first byte of its end.
    if begun_bytes > MAX_LINE_BYTES + 1:
        raise _out_of_step()
    return begun_bytes + 1


def _control(operation: bytes, line: bytes) -> Event:
    """Return what a line without a body says."""
    if operation == b"INFO":
        return _info(line[len(b"INFO ") :])
    if operation == b"-ERR":
        return ServerError(line[len(b"-ERR ") :].decode("utf-8", "replace").strip("' "))
    plain = _PLAIN.get(line)
    if plain is None:
        raise _out_of_step()
    return plain


def _info(text: bytes) -> ServerInfo:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _out_of_step() from error
    if not isinstance(fields, dict):
        raise _out_of_step()
    size = fields.get("max_payload")
    if not isinstance(size, int) or size < 0:
        raise _out_of_step()
    return ServerInfo(size)


def _out_of_step() -> WireError:
    return WireError("what answers at the address of nats-server does not speak NATS")


def _too_long() -> WireError:
    return WireError("nats-server sent a message that is longer than any record")


_PLAIN: Final[dict[bytes, Event]] = {b"PING": Ping(), b"PONG": Pong(), b"+OK": Ok()}
