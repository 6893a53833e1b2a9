"""Clients that leave in the middle of something, that read late, and many at once."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.http.fastpath.peers import Peer, ask, masked, request
from tests.unit.member.http.fastpath.scripts import NOTHING, OK, read
from tests.unit.waiting import until

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

MAP, QUEUE = "/grid/rest/maps/default", "/grid/rest/queues/default"
POLL, WAIT, SIZE = (
    *(request(f"DELETE {QUEUE}/0"), request(f"DELETE {QUEUE}/60")),
    request(f"GET {QUEUE}/size"),
)
LARGE = bytes(range(256)) * 4096
CONNECTIONS = 60
ROUNDS = 8


def put(key: object, value: bytes) -> bytes:
    return request(f"POST {MAP}/{key}", body=value)


def get(key: object) -> bytes:
    return request(f"GET {MAP}/{key}")


def offer(value: bytes) -> bytes:
    return request(f"POST {QUEUE}", body=value)


async def alone(member: RunningMember) -> None:
    """Wait until nobody is connected any more."""
    await until(lambda: member.listeners.counts().clients == 0)


async def remaining(member: RunningMember) -> list[bytes]:
    """Take what is left in the queue."""
    found: list[bytes] = []
    async with await Peer.connect(member.port) as peer:
        while (answer := read(await peer.ask(POLL))) != NOTHING:
            found.append(answer[1])
    return found


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 65, 1030])
async def test_half_closing_behind_requests(one: RunningMember, count: int) -> None:
    async with await Peer.connect(one.port) as peer:
        peer.send(b"".join(put(n, b"%d" % n) for n in range(count)))
        peer.half_close()
        found = (await peer.to_end()).split(b"\r\n\r\n")
    assert found.pop() == b""
    assert [answer[:15] for answer in found] == [b"HTTP/1.1 200 OK"] * count
    assert not [answer for answer in found[:-1] if b"\r\nConnection:" in answer]
    async with await Peer.connect(one.port) as peer:
        peer.send(b"".join(get(n) for n in range(count)))
        peer.half_close()
        values = [read(answer)[1] for answer in await peer.answers(count)]
        assert await peer.to_end() == b""
    assert values == [b"%d" % n for n in range(count)]


@pytest.mark.parametrize(
    ("before", "part"),
    [
        ([], b""),
        ([], b"P"),
        ([], b"\r\n"),
        ([], put("half", b"12345")[:30]),
        ([], put("half", b"12345")[:-5]),
        ([], put("half", b"12345")[:-1]),
        ([put("whole", b"12345")], put("half", b"12345")[:30]),
        ([put("whole", b"12345")], put("half", b"12345")[:-1]),
        ([get("whole"), get("whole")], get("half")[:-1]),
        ([get("whole")], get("half")[:-4]),
        ([offer(b"1")], WAIT[:-2]),
    ],
    ids=lambda data: str(len(data)),
)
async def test_half_closing_in_the_middle(
    pair: tuple[RunningMember, RunningMember], before: list[bytes], part: bytes
) -> None:
    for late in (False, True):
        found: list[bytes] = []
        for member in pair:
            async with await Peer.connect(member.port) as peer:
                peer.send(b"".join([*before, part]))
                answers = await peer.answers(len(before)) if late else []
                peer.half_close()
                all_of_it = b"".join([*answers, await peer.to_end()])
            # Whether the end comes before an answer, which then is the last, is a matter of luck.
            found.append(all_of_it if late else all_of_it.replace(b"Connection: close\r\n", b""))
            assert read(await ask(member, get("half"))) == NOTHING
        assert found[0] == found[1], late


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("count", [0, 1, 1030])
async def test_half_closing_behind_a_change_of_the_path(
    one: RunningMember, count: int, *, late: bool
) -> None:
    """A loop may tell of the end once more, to whoever reads on."""
    others = [request(f"GET {MAP}/0?x"), request(f"HEAD {MAP}/0"), put("z", LARGE), *[get("z")] * 2]
    async with await Peer.connect(one.port) as peer:
        peer.send(b"".join([*(put(n, b"%d" % n) for n in range(count)), *others]))
        first = await peer.answers(count) if late else []
        peer.half_close()
        found = b"".join([*first, await peer.to_end()])
    assert found.count(b"HTTP/1.1 ") == count + len(others)


async def test_half_closing_behind_a_poll_that_waits(one: RunningMember) -> None:
    async with await Peer.connect(one.port) as peer:
        peer.send(put("k", b"v") + WAIT)
        assert read(await peer.answer()) == OK
        peer.half_close()
        assert await peer.to_end() == b""
    assert read(await ask(one, offer(b"item"))) == OK
    assert await remaining(one) == [b"item"]


@pytest.mark.parametrize("sent", [20, 70, 100, 2000, 400_000])
async def test_a_reset_in_the_middle_of_a_request(one: RunningMember, sent: int) -> None:
    for data in (put("k", LARGE), offer(LARGE)):
        peer = await Peer.connect(one.port)
        await peer.send_pieces([data[:sent]])
        await peer.reset()
    await alone(one)
    assert one.listeners.uploads("rest").held_bytes == 0
    assert read(await ask(one, get("k"))) == NOTHING
    assert await remaining(one) == []


async def test_a_reset_while_writes_are_under_way(one: RunningMember) -> None:
    """Each was carried out as a whole or not at all, and none after one that was not."""
    count = 200
    peer = await Peer.connect(one.port)
    await peer.send_pieces([b"".join(put(n, b"%d" % n) + offer(b"%d" % n) for n in range(count))])
    await peer.reset()
    await alone(one)
    items = await remaining(one)
    assert items == [b"%d" % n for n in range(len(items))]
    for n in range(count):
        answer = read(await ask(one, get(n)))
        assert answer in ((200, b"%d" % n, None), NOTHING)
        assert answer != NOTHING or n >= len(items)


@pytest.mark.parametrize("before", [b"", put("k", b"v"), get("k"), put("k", b"v") * 3 + get("k")])
async def test_a_reset_while_a_poll_waits(one: RunningMember, before: bytes) -> None:
    peer = await Peer.connect(one.port)
    peer.send(before + WAIT + put("behind", b"v"))
    await peer.answers(before.count(b"HTTP/1.1"))
    await peer.reset()
    await alone(one)
    assert read(await ask(one, offer(b"item"))) == OK
    assert await remaining(one) == [b"item"]
    assert read(await ask(one, get("behind"))) == NOTHING


def small_buffers(port: int) -> socket.socket:
    """Connect a client that takes little before it reads."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", port))
    plain.setblocking(False)
    return plain


@pytest.mark.parametrize("size", [10, 40_000, 300_000])
async def test_a_reset_with_answers_unread_loses_no_item(one: RunningMember, size: int) -> None:
    """What the kernel had as a whole may be gone; the rest is there, in order, and once."""
    items = [b"%05d" % n + bytes(size) for n in range(60)]
    async with await Peer.connect(one.port) as peer:
        for item in items:
            assert read(await peer.ask(offer(item))) == OK
    peer = Peer(*await asyncio.open_connection(sock=small_buffers(one.port), limit=1))
    peer.send(POLL * len(items))
    sizes: list[bytes] = []
    async with await Peer.connect(one.port) as other:
        while len(sizes) < 3 or sizes[-1] != sizes[-3]:
            sizes.append(read(await other.ask(SIZE))[1])
            await other.ask(get("nothing"))
    await peer.reset()
    await alone(one)
    # Behind this, what was given back is in the log.
    assert read(await ask(one, request(f"DELETE {MAP}/nothing"))) == OK
    left = await remaining(one)
    assert left == items[len(items) - len(left) :]


async def test_a_reader_who_is_late_gets_everything(one: RunningMember) -> None:
    count = 12
    async with await Peer.connect(one.port) as other:
        assert read(await other.ask(put("large", LARGE))) == OK
        plain = small_buffers(one.port)
        late = Peer(*await asyncio.open_connection(sock=plain, limit=1 << 16))
        script = b"".join(get("large") + put(n, b"%d" % n) + get(n) for n in range(count))
        await late.send_pieces([script])
        for n in range(100):
            assert read(await other.ask(put("other", b"%d" % n))) == OK
        for n in range(count):
            assert read(await late.answer())[:2] == (200, LARGE)
            assert read(await late.answer()) == OK
            assert read(await late.answer())[:2] == (200, b"%d" % n)
        await late.close()


async def test_answers_are_never_swapped(one: RunningMember) -> None:
    """Everyone has a key, and a queue, of one's own, and sees nothing else."""

    async def client(number: int) -> None:
        queue = f"{QUEUE}{number}"
        async with await Peer.connect(one.port) as peer:
            for n in range(ROUNDS):
                value = b"%d of %d" % (n, number)
                one_queue = request(f"POST {queue}", body=value) + request(f"DELETE {queue}/9")
                peer.send(put(number, value) + get(number) + one_queue)
                found = [read(answer) for answer in await peer.answers(4)]
                wanted = [OK, (200, value, None), OK, (200, value, "text/plain")]
                assert found == wanted, number

    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))


async def test_requests_that_trickle_in_side_by_side(one: RunningMember) -> None:
    peers = [await Peer.connect(one.port) for _ in range(CONNECTIONS)]
    scripts = [put(f"{n:03}", b"%03d" % n) + get(f"{n:03}") for n in range(CONNECTIONS)]
    for at in range(0, len(scripts[0]), 7):
        for peer, script in zip(peers, scripts, strict=True):
            peer.send(script[at : at + 7])
        await asyncio.sleep(0)
    for number, peer in enumerate(peers):
        assert [read(a) for a in await peer.answers(2)] == [OK, (200, b"%03d" % number, None)]
        await peer.close()


async def test_what_aiohttp_stored_is_read_in_the_fast_path(
    pair: tuple[RunningMember, RunningMember],
) -> None:
    """And the other way round: types that are not ASCII, keys with slashes, empty values."""
    stored = [
        request(f"POST {MAP}/latin", "Content-Type: a/\xe4", body=b"v"),
        request(f"POST {MAP}/a/b", body=b"w"),
        request(f"POST {MAP}/empty", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        request(f"POST {MAP}/long", "Content-Type: " + "a" * 9000, body=b"x"),
        request(f"POST {QUEUE}", "Content-Type: \xe4/b", body=b"\xff"),
    ]
    asked = [get("latin"), get("a%2Fb"), get("empty"), get("long"), POLL]
    found: list[bytes] = []
    for member in pair:
        async with await Peer.connect(member.port) as peer:
            assert [read(await peer.ask(data)) for data in stored] == [OK] * len(stored)
        async with await Peer.connect(member.port) as peer:
            peer.send(b"".join(asked))
            found.append(masked(b"".join(await peer.answers(len(asked)))))
    assert found[0] == found[1]
    assert found[0].count(b"HTTP/1.1 200 OK") == len(asked)


async def test_a_peer_reads_what_was_answered_before_its_writes_fail() -> None:
    answered = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad"
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with await Peer.connect(server.getsockname()[1]) as peer:
            taken, _ = server.accept()
            peer.send(b"a request and more")
            taken.recv(1)
            taken.sendall(answered)
            # The server leaves bytes unread: its kernel resets the connection.
            taken.close()
            peer.send(b"and more")
            assert await peer.answer() == answered
            assert await peer.to_end() == b""
