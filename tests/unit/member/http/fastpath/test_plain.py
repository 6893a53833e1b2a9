"""What the fast path takes for a request, compared with a reference and with aiohttp's parser."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from grid_member.config.model.member import Limits
from grid_member.http.fastpath.plain import HEAD_BYTES, MAX_KNOWN, NotPlain, Recognizer, RequestKind
from grid_member.http.table import RoutingTable
from grid_member.http.wire.paths import split_target
from tests.unit.member.http.fastpath.reference import Meaning, meaning
from tests.unit.member.http.fastpath.shapes import Shape, mutated, plain
from tests.unit.member.http.fastpath.unplain import HANDED_OVER, MALFORMED

LIMITS = Limits()
HEAD = b"POST /grid/rest/maps/m/k HTTP/1.1\r\nHost: a\r\n"
TABLE = RoutingTable()


def recognised(
    data: bytes, recogniser: Recognizer | None = None, start: int = 0
) -> Meaning | NotPlain:
    """Return what the fast path takes the request for."""
    found = (recogniser or Recognizer(LIMITS)).request(data, start)
    if isinstance(found, NotPlain):
        return found
    beginning, text, content_type, body_start, length = found
    operation, end = beginning.kind.value, body_start + length - start
    name = text if beginning.kind is RequestKind.QUEUE_OFFER else beginning.name
    if beginning.kind is RequestKind.QUEUE_POLL:
        return Meaning(operation, beginning.method, name, end, seconds=int(text))
    key = text if beginning.is_map else ""
    if not beginning.has_body:
        return Meaning(operation, beginning.method, name, end, key)
    body = data[body_start : body_start + length]
    return Meaning(operation, beginning.method, name, end, key, 0, content_type, body)


def by_aiohttp(data: bytes) -> list[Meaning]:
    """Return what aiohttp and the routing table behind it take the bytes for."""
    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(
        BaseProtocol(loop),
        loop,
        1 << 16,
        max_line_size=LIMITS.header_bytes,
        max_field_size=LIMITS.header_bytes,
        auto_decompress=False,
    )
    messages, upgraded, rest = parser.feed_data(data)
    assert (upgraded, rest) == (False, b"")
    found: list[Meaning] = []
    for message, payload in messages:
        assert payload.is_eof()
        assert not message.should_close
        assert not message.chunked
        body = b"".join(payload._buffer) if hasattr(payload, "_buffer") else b""
        match = TABLE.match(split_target(message.path).parts)
        row = match.row(message.method) if match else None
        assert match is not None
        assert row is not None
        assert row.operation is not None
        types = [
            v.decode("latin-1") for k, v in message.raw_headers if k.lower() == b"content-type"
        ]
        writes = message.method in ("POST", "PUT")
        seconds = int(match.names.get("seconds", "0"))
        found.append(
            Meaning(
                *(row.operation, message.method, match.names["name"], len(data)),
                *(match.names.get("key", ""), seconds),
                content_type=types[0] if writes and types else None,
                body=body if writes else b"",
            )
        )
    return found


def agree(data: bytes) -> Meaning | NotPlain:
    """Return what the fast path takes the bytes for, once the reference and aiohttp have agreed."""
    found = recognised(data)
    if isinstance(found, Meaning) and found.end <= len(data):
        assert found == meaning(data)
        assert by_aiohttp(data[: found.end]) == [found]
    return found


@given(plain())
async def test_plain_requests_are_taken_for_what_they_mean(shape: Shape) -> None:
    assert agree(shape.data) == shape.meaning
    assert meaning(shape.data) == shape.meaning


@given(mutated())
@example(HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx")
@example(b"POST /grid/rest/maps/m/a/b HTTP/1.1\r\nHost: a\r\n\r\n")
async def test_nothing_is_taken_that_the_others_would_not_take(data: bytes) -> None:
    agree(data)


@given(mutated(), st.lists(plain(), max_size=3))
async def test_what_was_read_before_changes_nothing(data: bytes, before: list[Shape]) -> None:
    one = Recognizer(LIMITS)
    for shape in before:
        assert recognised(shape.data, one) == shape.meaning
    whole = b"".join(shape.data for shape in before) + data
    start = len(whole) - len(data)
    assert recognised(whole, one, start) == recognised(data) == recognised(data, one)


@given(plain())
async def test_the_beginning_of_a_plain_request_may_become_one(shape: Shape) -> None:
    head = shape.data.index(b"\r\n\r\n") + 4
    for size in range(head):
        assert recognised(shape.data[:size]) is NotPlain.INCOMPLETE, shape.data[:size]
    for size in range(head, len(shape.data)):
        assert isinstance(recognised(shape.data[:size]), Meaning)


@given(mutated())
async def test_what_is_not_plain_at_its_beginning_is_not_at_its_end(data: bytes) -> None:
    for size in range(len(data)):
        if recognised(data[:size]) is NotPlain.OTHER:
            assert recognised(data) is NotPlain.OTHER, data[:size]
            return


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_is_never_taken(name: str) -> None:
    assert agree(MALFORMED[name]) in (NotPlain.OTHER, NotPlain.INCOMPLETE)
    assert meaning(MALFORMED[name]) is None


@pytest.mark.parametrize("name", HANDED_OVER)
async def test_what_is_rare_is_left_alone(name: str) -> None:
    assert agree(HANDED_OVER[name]) is NotPlain.OTHER


def put(key: str, length: str, *headers: str) -> bytes:
    lines = [f"POST /grid/rest/maps/m/{key} HTTP/1.1", "Host: a", f"Content-Length: {length}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("data", "taken"),
    [
        (put("k", str(LIMITS.value_bytes)), True),
        (put("k", str(LIMITS.value_bytes + 1)), False),
        (put("k", "9" * 18), False),
        (put("k", "9" * 4400), False),
        (put("k" * 7000, "0"), True),
        (put("%C3%A4" * 1200, "0"), True),
        (put("k", "0", "X-A: " + "a" * (HEAD_BYTES + 1)), False),
        (put("k", "0", "X-A: " + "a" * (HEAD_BYTES - 200)), True),
        (put("k" * (LIMITS.key_bytes + 1), "0"), False),
        (put("k", "0").replace(b"/m/", b"/" + b"m" * LIMITS.name_bytes + b"/"), True),
        (put("k", "0").replace(b"/m/", b"/" + b"m" * (LIMITS.name_bytes + 1) + b"/"), False),
        (put("k", "0").replace(b"/m/", b"/" + b"%C3%A4" * 127 + b"m/"), True),
        (put("k", "0").replace(b"/m/", b"/" + b"%C3%A4" * 128 + b"/"), False),
    ],
)
def test_limits(data: bytes, taken: bool) -> None:
    found = recognised(data)
    assert isinstance(found, Meaning) == taken
    assert taken or found is NotPlain.OTHER


def test_a_shorter_limit_for_keys_holds() -> None:
    small = Recognizer(Limits(key_bytes=3, name_bytes=2, value_bytes=1, header_bytes=100))
    for key, length, taken in (("abc", "1", True), ("abcd", "1", False), ("abc", "2", False)):
        assert isinstance(recognised(put(key, length), small), Meaning) == taken
    assert recognised(put("%C3%A4%C3%A4", "0"), small) is NotPlain.OTHER
    assert recognised(put("k", "0").replace(b"/m/", b"/mmm/"), small) is NotPlain.OTHER
    assert recognised(put("k", "0", "X-A: " + "a" * 60), small) is NotPlain.OTHER


def test_what_is_remembered_is_bounded() -> None:
    one = Recognizer(LIMITS)
    for number in range(3 * MAX_KNOWN):
        data = put("k", "1", f"X-A: {number}").replace(b"/m/", b"/m%d/" % number) + b"x"
        found = recognised(data, one)
        assert isinstance(found, Meaning)
        assert found.name == f"m{number}"
        assert max(len(one._beginnings), len(one._heads)) <= MAX_KNOWN
