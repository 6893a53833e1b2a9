"""The short way for requests made of what was met before finds what the long way finds."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from grid_member.config.model.member import Limits
from grid_member.http.fastpath.plain import HEAD_BYTES, Recognizer
from tests.unit.member.http.fastpath.shapes import Shape, mutated, plain

LIMITS = Limits()
PUT = b"POST /grid/rest/maps/m/k HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
GET = b"GET /grid/rest/maps/m/k HTTP/1.1\r\nHost: a\r\n\r\n"
OFFER = b"POST /grid/rest/queues/q HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
SIZE = b"GET /grid/rest/queues/q/size HTTP/1.1\r\nHost: a\r\n\r\n"
POLL = b"DELETE /grid/rest/queues/q/5 HTTP/1.1\r\nHost: a\r\n\r\n"
KINDS = (PUT, GET, OFFER, SIZE, POLL)


def agrees(known: Recognizer, data: bytes) -> bool:
    """Tell whether the short way takes the data, which it must do as the long one does."""
    short = known.whole_request(data)
    if short is None:
        return False
    beginning, text, content_type, body = short
    at = len(data) - len(body)
    fresh = Recognizer(LIMITS).request(data, 0)
    assert fresh == (beginning, text, content_type, at, len(body))
    assert data[at:] == body
    return True


def knowing(*seen: bytes) -> Recognizer:
    known = Recognizer(LIMITS)
    for data in seen:
        known.request(data, 0)
    return known


def test_what_was_met_before_is_taken() -> None:
    known = knowing(*KINDS)
    assert [agrees(known, data) for data in KINDS] == [True] * len(KINDS)
    assert agrees(known, PUT.replace(b"/k ", b"/another "))
    assert agrees(known, PUT.replace(b"\r\n\r\nx", b"\r\n\r\n\n"))


def test_what_was_not_met_is_not() -> None:
    assert not any(agrees(knowing(), data) for data in KINDS)
    assert knowing(PUT).whole_request(OFFER) is None


def test_only_one_that_is_whole_and_alone_is_taken() -> None:
    known = knowing(*KINDS)
    for data in KINDS:
        assert agrees(known, data)  # which the next ones are held against
        assert not any(agrees(known, data[:size]) for size in range(len(data)))
        assert not any(agrees(known, data[size:]) for size in range(1, len(data)))
        assert not any(agrees(known, data + more) for more in (b"x", b"\r\n", *KINDS))


def test_a_head_is_no_body_though_it_is_as_long() -> None:
    for template in (PUT, OFFER):
        for size in range(200):
            data = template.replace(b"Length: 1", b"Length: %d" % size)[:-1]
            if len(data) == size:
                break
        known = knowing(data + b"x" * size)
        assert agrees(known, data + b"x" * size)
        assert not agrees(known, data)
        assert not any(agrees(known, data[cut:]) for cut in range(len(data)))


def test_the_next_one_may_differ_in_anything() -> None:
    known = knowing(*KINDS)
    for before in KINDS:
        for after in (*KINDS, *(data.replace(b"Host: a", b"Host: b") for data in KINDS)):
            assert agrees(known, before)
            assert agrees(known, after) is (after in KINDS)
            for target in (b"a b", b"k/k", b"%6B", b"+", b"", b"k?", b"k#", b"\xff", b"k\r\n"):
                agrees(known, before.replace(b"/k ", b"/" + target + b" "))


def test_bodies_only_where_they_belong() -> None:
    known = knowing(*KINDS)
    for data in (GET, SIZE, POLL):
        assert agrees(known, data)
        with_body = data.replace(b"Host: a\r\n", b"Host: a\r\nContent-Length: 1\r\n") + b"x"
        assert known.whole_request(with_body) is None


def test_limits_hold() -> None:
    known = knowing(PUT, GET)
    assert agrees(known, GET)
    assert agrees(known, GET.replace(b"/k ", b"/" + b"k" * 7000 + b" "))
    assert not agrees(known, GET.replace(b"/k ", b"/" + b"k" * (LIMITS.key_bytes + 1) + b" "))
    roomy = Recognizer(replace(LIMITS, key_bytes=2 * HEAD_BYTES))
    for size in (1, *range(HEAD_BYTES - 64, HEAD_BYTES + 2)):
        data = GET.replace(b"/k ", b"/" + b"k" * size + b" ")
        roomy.request(GET, 0)
        taken = roomy.whole_request(data) is not None
        assert taken is isinstance(roomy.request(data, 0), tuple)
        agrees(known, GET.replace(b"/k ", b"/" + b"k" * size + b" "))


@given(st.lists(plain(), min_size=1, max_size=4), mutated())
@example([Shape(PUT, None)], PUT[:-4])  # type: ignore[arg-type]
def test_nothing_else_is_ever_taken(seen: list[Shape], data: bytes) -> None:
    known = knowing(*(shape.data for shape in seen))
    agrees(known, data)
    for shape in seen:
        whole = shape.data
        agrees(known, whole)
        for cut in range(0, len(whole), 7):
            agrees(known, whole[:cut])
            agrees(known, whole[:cut] + data)
