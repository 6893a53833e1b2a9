"""Where the bytes of a connection are cut: after heads and bodies, whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.http.wire.pieces import Pieces

END = b"\r\n\r\n"
READ_BYTES = 256 << 10
PARTS = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", END, b"x", b"GET", b"0\r\n\r\n"]), max_size=40
).map(b"".join)
SIZES = st.lists(st.integers(1, 9), max_size=40)


def cuts(pieces: Pieces, data: bytes, sizes: list[int]) -> list[int]:
    """Return where the pieces end, of data that arrives in reads of these sizes."""
    found, at = list[int](), 0
    for size in [*sizes, len(data)]:
        read = data[at : at + size]
        start = 0
        while start < len(read):
            end = pieces.end(read, start)
            assert start < end <= len(read)
            found.append(at + end)
            start = end
        at += len(read)
    return found


@given(PARTS, SIZES, st.integers(0, 12))
def test_pieces_end_where_heads_and_bodies_do(data: bytes, sizes: list[int], body: int) -> None:
    pieces = Pieces()
    pieces.begin_body(body)
    ends = cuts(pieces, data, sizes)
    assert ends[-1:] == [len(data)] or not data
    assert body in ends or body in (0, *range(len(data), 13))
    # Empty lines before a head belong to it.
    head = len(data) - len(data[body:].lstrip(b"\r\n"))
    first = data.find(END, head)
    assert first < 0 or first + len(END) in ends


def chunked(chunks: list[bytes], zeros: int, extension: bytes, trailers: bytes) -> bytes:
    lines = [b"%0*x%b\r\n%b\r\n" % (zeros, len(c), extension, c) for c in chunks if c]
    return b"".join(lines) + b"0" * (zeros + 1) + extension + b"\r\n" + trailers + b"\r\n"


@given(
    st.lists(PARTS, max_size=5),
    st.integers(0, 30),
    st.sampled_from([b"", b";a=b", b";" + b"a" * 50]),
    st.sampled_from([b"", b"X-A: b\r\n", b"0: 0\r\nX: 3\r\n"]),
    SIZES,
)
def test_a_chunked_body_is_cut_at_its_end_alone(
    chunks: list[bytes], zeros: int, extension: bytes, trailers: bytes, sizes: list[int]
) -> None:
    body = chunked(chunks, zeros, extension, trailers)
    pieces = Pieces()
    pieces.begin_chunks()
    following = b"GET / HTTP/1.1\r\n\r\nHEAD"
    ends = cuts(pieces, body + following, sizes)
    assert len(body) in ends
    assert len(body) + following.index(END) + len(END) in ends
    last = len(body) - len(b"\r\n") - len(trailers)
    reads = {sum(sizes[: n + 1]) for n in range(len(sizes))}
    assert {end for end in ends if end < len(body)} <= {last, *reads}
    assert pieces.in_head


@pytest.mark.parametrize("text", [END, b"x\r\n\r\n", b"0\r\n\r\n", b"\n", b"5\r\n"])
def test_what_a_chunk_holds_makes_no_more_pieces(text: bytes) -> None:
    body = chunked([text * (READ_BYTES // len(text))] * 8, 0, b"", b"")
    pieces = Pieces()
    pieces.begin_chunks()
    reads = [READ_BYTES] * (len(body) // READ_BYTES)
    assert len(cuts(pieces, body, reads)) <= len(reads) + 3


@pytest.mark.parametrize(
    "begun", [b"5" * 30, b"0" * 30 + b"5", b"5;" + b"a" * 30, b"5" * READ_BYTES]
)
def test_of_an_endless_line_nothing_is_kept(begun: bytes) -> None:
    pieces = Pieces()
    pieces.begin_chunks()
    for _ in range(100):
        assert pieces.end(begun, 0) == len(begun)
    assert len(pieces._chunk_line) < 20


def test_a_head_begins_with_its_first_byte_that_is_no_line_end() -> None:
    pieces = Pieces()
    for data, in_head in (
        (END * 1000, False),
        (b"\r", False),
        (b"G", True),
        (b"ET / HTTP/1.1\r\n\r", True),
        (b"\n", False),
        (b"\r\nG", True),
        (b"\r\n\r\n", False),
    ):
        assert cuts(pieces, data, []) == [len(data)]
        assert pieces.in_head == in_head
