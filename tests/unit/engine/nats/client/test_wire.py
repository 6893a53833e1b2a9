"""What a server sends, however it is split, and what it is sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.nats.client import wire
from grid_member.engine.nats.client.errors import WireError
from grid_member.engine.nats.client.wire import (
    Event,
    Message,
    Ok,
    Parser,
    Ping,
    Pong,
    ServerError,
    ServerInfo,
)
from tests.unit.engine.nats.client.reference import encoded, parsed

LIMIT_BYTES = 200

subjects = st.text("ab.$_", min_size=1, max_size=8).map(str.encode)
# What ends a line, begins another or looks like one, inside of a payload.
payloads = st.one_of(
    st.binary(max_size=40),
    st.lists(
        st.sampled_from([b"\r", b"\n", b"\r\n", b"MSG a 1 1\r\nx\r\n", b"PING\r\n", b"\0"])
    ).map(b"".join),
)
blocks = st.sampled_from(
    [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"]
)
messages = st.builds(
    Message, subjects, st.just(b"") | subjects, blocks, payloads, st.integers(0, 10**9)
)
words = st.text("abc-", max_size=6)
infos = st.builds(ServerInfo, st.integers(0, 2**40))
events: st.SearchStrategy[Event] = st.one_of(
    messages,
    messages,
    infos,
    st.builds(ServerError, words),
    st.sampled_from([Ping(), Pong(), Ok()]),
)
streams = st.lists(events, max_size=6)


def fed(pieces: list[bytes], limit_bytes: int = LIMIT_BYTES) -> tuple[list[Event], bool]:
    parser = Parser(limit_bytes)
    got: list[Event] = []
    try:
        for piece in pieces:
            got += parser.feed(piece)
    except WireError:
        return got, True
    return got, False


@given(streams)
def test_every_split_gives_the_same_events(stream: list[Event]) -> None:
    data = b"".join(encoded(event) for event in stream)
    for at in range(len(data) + 1):
        assert fed([data[:at], data[at:]]) == (stream, False)
    assert fed([data[at : at + 1] for at in range(len(data))]) == (stream, False)


@given(st.data())
def test_hostile_bytes_are_read_as_the_reference_reads_them(data: st.DataObject) -> None:
    spoiled = spoil(b"".join(encoded(event) for event in data.draw(streams)), data)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(spoiled)), max_size=5)))
    pieces = [spoiled[a:b] for a, b in zip([0, *cuts], [*cuts, len(spoiled)], strict=True)]
    expected, refused = parsed(spoiled, LIMIT_BYTES)
    got, was_refused = fed(pieces)
    assert was_refused == refused
    # What came in the same piece as the refused bytes is lost with them.
    assert got == (expected[: len(got)] if refused else expected)


def spoil(stream: bytes, data: st.DataObject) -> bytes:
    """Return a stream in which bytes are replaced, left out or put in."""
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream)))
        gone = data.draw(st.integers(0, 2))
        put = data.draw(st.sampled_from([b"", b" ", b"\r\n", b"9", b"-1", b"_", b"H", b"\xff"]))
        stream = stream[:at] + put + stream[at + gone :]
    return stream


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"PING \r\n",
        b"ping\r\n",
        b"MSG\r\n",
        b"MSG a 1\r\n",
        b"MSG  1 0\r\n\r\n",
        b"MSG a  1 0\r\n\r\n",
        b"MSG a 1 b c 0\r\n\r\n",
        b"MSG a x 0\r\n\r\n",
        b"MSG a 1 -1\r\n\r\n",
        b"MSG a 1 +1\r\nx\r\n",
        b"MSG a 1 1_0\r\n",
        b"MSG a 1 201\r\n",
        b"MSG a 1 " + b"9" * 5000 + b"\r\n",
        b"MSG a 1 1\r\nxyz",
        b"HMSG a 1 4\r\n",
        b"HMSG a 1 20 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"HMSG a 1 12 213\r\n",
        b"HMSG a 1 65537 65537\r\n",
        b"HMSG a 1 12 12\r\nHTTP/1.0\r\n\r\n\r\n",
        b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\nxy",
        b"INFO\r\n",
        b"INFO []\r\n",
        b"INFO {}\r\n",
        b'INFO {"max_payload":"many"}\r\n',
        b'INFO {"max_payload":-1}\r\n',
        b"INFO " + b"[" * 50_000 + b"\r\n",
        b"x" * (wire.MAX_LINE_BYTES + 2),
        b"-ERR " + b"x" * wire.MAX_LINE_BYTES + b"\r\n",
    ],
)
def test_what_is_no_nats_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        Parser(LIMIT_BYTES).feed(line)


def test_the_limits_themselves_are_taken() -> None:
    message = Message(b"a", b"", b"", b"x" * LIMIT_BYTES, 1)
    with_headers = message._replace(headers=b"NATS/1.0\r\n\r\n")
    error = ServerError("x" * (wire.MAX_LINE_BYTES - len("-ERR ''")))
    data = encoded(message) + encoded(with_headers) + encoded(error)
    assert fed([data]) == ([message, with_headers, error], False)


def test_a_reply_that_is_there_but_empty_is_none() -> None:
    """So a server writes the answers of its own."""
    plain = Message(b"a", b"", b"", b"x", 1)
    with_headers = plain._replace(headers=b"NATS/1.0\r\n\r\n")
    data = b"MSG a 1  1\r\nx\r\nHMSG a 1  12 13\r\nNATS/1.0\r\n\r\nx\r\n"
    assert fed([data]) == ([plain, with_headers], False)


def test_a_message_in_many_pieces_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at before the last piece: a large payload costs what it is long."""
    reads: list[int] = []
    read = Parser._read

    def counted(parser: Parser, data: bytes, events: list[Event]) -> tuple[int, int]:
        reads.append(len(data))
        return read(parser, data, events)

    monkeypatch.setattr(Parser, "_read", counted)
    payload = bytes(range(256)) * 4096
    data = encoded(Message(b"a", b"", b"", payload, 1))
    got, _ = fed([data[at : at + 1000] for at in range(0, len(data), 1000)], len(payload))
    assert [event.payload for event in got if isinstance(event, Message)] == [payload]
    assert reads == [1000, len(data)]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"", None),
        (b"NATS/1.0\r\nA: 503\r\n\r\n", None),
        (b"NATS/1.0 503\r\n\r\n", 503),
        (b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 4\r\n\r\n", 100),
        (b"NATS/1.0 5\r\n\r\n", None),
        (b"NATS/1.0 abc\r\n\r\n", None),
    ],
)
def test_the_status_of_a_block_of_headers(headers: bytes, expected: int | None) -> None:
    assert wire.status(headers) == expected


def test_what_a_server_is_sent() -> None:
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert wire.publication(b"a", b"x\r\ny") == b"PUB a 4\r\nx\r\ny\r\n"
    assert wire.publication(b"a", b"", b"r") == b"PUB a r 0\r\n\r\n"
    assert wire.publication(b"a", b"xy", b"r", block) == b"HPUB a r 18 20\r\n" + block + b"xy\r\n"
    assert wire.publication(b"a", b"xy", headers=block) == b"HPUB a 18 20\r\n" + block + b"xy\r\n"
    assert wire.subscription(b"a.>", 7) == b"SUB a.> 7\r\n"
    assert wire.unsubscription(7) == b"UNSUB 7\r\n"


def test_the_greeting_survives_any_password() -> None:
    line = wire.greeting("us\r\ner", 'pass"\u00fc\r\n', "a name")
    assert line.startswith(b"CONNECT ")
    assert line.count(b"\r\n") == 1
    options = json.loads(line.removeprefix(b"CONNECT "))
    assert (options["user"], options["pass"]) == ("us\r\ner", 'pass"\u00fc\r\n')
    assert options["verbose"] is False
    assert options["headers"] is options["no_responders"] is True


@pytest.mark.parametrize("subject", [b"", b"a b", b"a\r\nPUB b 0", b"a\t", b"a" * 1025])
def test_a_subject_that_would_be_read_as_more_is_refused(subject: bytes) -> None:
    with pytest.raises(WireError):
        wire.publication(subject, b"")
    with pytest.raises(WireError):
        wire.subscription(subject, 1)
    if subject:
        with pytest.raises(WireError):
            wire.publication(b"a", b"", subject)


@pytest.mark.parametrize(
    "block",
    [b"A: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n", b"NATS/1.0\r\nA: " + b"b" * 32768 + b"\r\n\r\n"],
)
def test_headers_that_would_be_read_as_more_are_refused(block: bytes) -> None:
    with pytest.raises(WireError):
        wire.publication(b"a", b"", headers=block)
