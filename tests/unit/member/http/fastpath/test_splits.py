"""Every kind of request for data, cut at every place: both paths answer with the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from grid_member.http.wire.connection import ConnectionProtocol
from tests.unit.member.http.fastpath.peers import Handed, Peer, cut, masked, request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.member.running import RunningMember

MAP, QUEUE = "/grid/rest/maps/default", "/grid/rest/queues/default"
EDGE = 3
"""Large bodies are cut so many bytes around each place where a read might end."""
READ_BYTES = (64 << 10, 256 << 10)
SHOWN = 300


@dataclass(frozen=True, slots=True)
class Kind:
    """A request, what is asked before it and after it, and the status of its answer."""

    data: bytes
    status: int = 200
    before: bytes = b""
    after: bytes = b""


def get(path: str) -> bytes:
    return request(f"GET {path}")


def post(path: str, value: bytes = b"value", *headers: str) -> bytes:
    return request(f"POST {path}", *headers, body=value)


POLL = request(f"DELETE {QUEUE}/0")
ODD = "%C3%A4%2F+%25%0d%0A/%2e%2E%00%7f".replace("/", "%2f")
KINDS = {
    "put": Kind(post(f"{MAP}/k"), after=get(f"{MAP}/k")),
    "put with type": Kind(
        post(f"{MAP}/k", b"{}", "Content-Type: application/json; charset=UTF-8"),
        after=get(f"{MAP}/k"),
    ),
    "put nothing": Kind(post(f"{MAP}/k", b""), after=get(f"{MAP}/k")),
    "put without length": Kind(request(f"POST {MAP}/k"), after=get(f"{MAP}/k")),
    "put one byte": Kind(post(f"{MAP}/k", b"\0"), after=get(f"{MAP}/k")),
    "put what looks like requests": Kind(
        post(f"{MAP}/k", b"\r\n\r\n" + get(f"{MAP}/other")), after=get(f"{MAP}/k")
    ),
    "PUT": Kind(request(f"PUT {MAP}/k", body=b"value"), after=get(f"{MAP}/k")),
    "put odd name": Kind(post(f"{MAP}{ODD}/{ODD}", b"v"), after=get(f"{MAP}{ODD}/{ODD.lower()}")),
    "put unconfigured": Kind(post("/grid/rest/maps/nowhere/k", b"v"), 404),
    "get": Kind(get(f"{MAP}/there"), before=post(f"{MAP}/there", b"v", "Content-Type: a/b")),
    "get nothing": Kind(get(f"{MAP}/nothing"), 204),
    "get unconfigured": Kind(get("/grid/rest/maps/nowhere/k"), 404),
    "get with many headers": Kind(
        request(f"GET {MAP}/there", "Accept: */*", "user-agent: a (b; c)", "X-E:d", 'x-F: "g":h'),
        before=post(f"{MAP}/there"),
    ),
    "get with credentials": Kind(
        request(f"GET {MAP}/there", "Authorization: Basic YTpi"), before=post(f"{MAP}/there")
    ),
    "remove": Kind(
        request(f"DELETE {MAP}/there"), before=post(f"{MAP}/there"), after=get(f"{MAP}/there")
    ),
    "remove with length": Kind(request(f"DELETE {MAP}/nothing", body=b"")),
    "offer": Kind(post(QUEUE), after=POLL),
    "offer with type": Kind(post(QUEUE, b"<a/>", "Content-Type: text/xml"), after=POLL),
    "offer bytes": Kind(post(QUEUE, b"\xff\0"), after=POLL),
    "offer nothing": Kind(post(QUEUE, b""), after=POLL),
    "offer to odd name": Kind(post(f"{QUEUE}{ODD}", b"v")),
    "offer unconfigured": Kind(post("/grid/rest/queues/nowhere", b"v"), 404),
    "poll": Kind(request(f"DELETE {QUEUE}/60"), before=post(QUEUE)),
    "poll with type": Kind(POLL, before=post(QUEUE, b"v", "Content-Type: a/b")),
    "poll nothing": Kind(POLL, 204),
    "poll unconfigured": Kind(request("DELETE /grid/rest/queues/nowhere/0"), 404),
    "size": Kind(get(f"{QUEUE}/size")),
    "size unconfigured": Kind(get("/grid/rest/queues/nowhere/size"), 404),
}


async def transcript(peer: Peer, kind: Kind, pieces: list[bytes]) -> list[bytes]:
    """Return the answers to what comes before a request, to its pieces, and to what follows."""
    found = [await peer.ask(kind.before)] if kind.before else []
    await peer.send_pieces(pieces)
    found.append(await peer.answer())
    assert found[-1].startswith(b"HTTP/1.1 %d " % kind.status), found[-1][:SHOWN]
    return [*found, await peer.ask(kind.after)] if kind.after else found


async def differences(
    peers: tuple[Peer, Peer], kind: Kind, ways: Iterator[list[bytes]]
) -> list[str]:
    """Play a kind in every way to cut it; return where the answers of the paths differ."""
    found: list[str] = []
    for pieces in ways:
        fast_path, aiohttp = [await transcript(peer, kind, pieces) for peer in peers]
        for one, other in zip(fast_path, aiohttp, strict=True):
            if one != other:
                sizes = [len(piece) for piece in pieces][:5]
                found.append(
                    f"in pieces of {sizes}: {one[:SHOWN]!r} by the fast path, {other[:SHOWN]!r}"
                )
    return found


def every_way(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[n : n + 1] for n in range(len(data))]
    for offset in range(1, len(data)):
        yield cut(data, [offset])


def large_ways(data: bytes) -> Iterator[list[bytes]]:
    """Cut the head at every place, the body where reads may end."""
    yield [data]
    body = data.index(b"\r\n\r\n") + 4
    edges = {*range(1, body + EDGE), *range(len(data) - EDGE, len(data))}
    for size in READ_BYTES:
        for start in (0, body):
            for place in range(start + size, len(data), size):
                edges |= {place - 1, place, place + 1}
    for offset in sorted(edges):
        yield cut(data, [offset])
    for size in (*READ_BYTES, 10_007):
        yield cut(data, range(size, len(data), size))


async def compare(
    pair: tuple[RunningMember, RunningMember],
    handed: Handed,
    kind: Kind,
    ways: Iterator[list[bytes]],
) -> None:
    async with (
        await Peer.connect(pair[0].port) as fast_path,
        await Peer.connect(pair[1].port) as other,
    ):
        assert await differences((fast_path, other), kind, ways) == []
        assert [handed.has(pair[0], fast_path), handed.has(pair[1], other)] == [False, True]


@pytest.mark.parametrize("name", KINDS)
async def test_each_kind_at_each_place(
    pair: tuple[RunningMember, RunningMember], handed: Handed, name: str
) -> None:
    await compare(pair, handed, KINDS[name], every_way(KINDS[name].data))


@pytest.mark.parametrize("size", [100, *(n + d for n in READ_BYTES for d in (-1, 0, 1)), 1 << 20])
async def test_large_values(
    pair: tuple[RunningMember, RunningMember], handed: Handed, size: int
) -> None:
    value = (bytes(range(256)) * (size // 256 + 1))[:size]
    for path, after in ((f"{MAP}/large", get(f"{MAP}/large")), (QUEUE, POLL)):
        kind = Kind(post(path, value, "Content-Type: a/b"), after=after)
        await compare(pair, handed, kind, iter([[kind.data]]))


async def test_a_large_value_in_pieces(
    pair: tuple[RunningMember, RunningMember], handed: Handed
) -> None:
    value = bytes(range(256)) * (600 << 2)
    kind = Kind(post(f"{MAP}/large", value), after=get(f"{MAP}/large"))
    await compare(pair, handed, kind, large_ways(kind.data))


async def test_a_body_over_the_budget(pair: tuple[RunningMember, RunningMember]) -> None:
    """Of what waits for the rest of its body: aiohttp refuses it, given all that has come."""
    limit_bytes = 30
    data = post(f"{MAP}/k", bytes(60))
    body = data.index(b"\r\n\r\n") + 4
    for member in pair:
        member.listeners.uploads("rest").limit_bytes = limit_bytes
    found: list[str] = []
    for offset in range(body + limit_bytes + 1, len(data)):
        for before in (b"", get(f"{MAP}/k"), post(f"{MAP}/other", b"")):
            ends: list[bytes] = []
            for member in pair:
                async with await Peer.connect(member.port) as peer:
                    await peer.send_pieces(cut(before + data, [len(before) + offset]))
                    ends.append(await peer.to_end())
                assert member.listeners.uploads("rest").held_bytes == 0
            if ends[0] != ends[1] or b"HTTP/1.1 503 " not in ends[0]:
                found.append(f"cut at {offset}: {ends[0]!r} by the fast path, {ends[1]!r}")
    assert found == []


async def test_pieces_are_read_one_by_one(
    pair: tuple[RunningMember, RunningMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests above rely on."""
    sizes: list[int] = []
    read = ConnectionProtocol.data_received

    def data_received(self: ConnectionProtocol, data: bytes) -> None:
        sizes.append(len(data))
        read(self, data)

    monkeypatch.setattr(ConnectionProtocol, "data_received", data_received)
    async with await Peer.connect(pair[1].port) as peer:
        data = post(f"{MAP}/k")
        await peer.send_pieces(cut(data, [1, 20, 50]))
        await peer.answer()
    assert [size for size in sizes if size] == [1, 19, 30, len(data) - 50]


async def test_what_is_masked_is_the_value_of_date_alone() -> None:
    date = b"Date: Sat, 21 Nov 2026 22:36:10 GMT\r\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 41\r\n" + date + b"X-A: b\r\n\r\n"
    assert masked(answer) == answer.replace(date, b"Date: -\r\n")
    assert masked(answer.replace(b"GMT", b"CET")) == answer.replace(b"GMT", b"CET")
