"""Requests that two servers might read differently: refused on both paths, and nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.member.http.fastpath.peers import Handed, Peer, ask, cut, request
from tests.unit.member.http.fastpath.unplain import CLOSING, GOOD, HANDED_OVER, MALFORMED, SMUGGLED

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

Pair = tuple["RunningMember", "RunningMember"]
WANTED = request("GET /grid/rest/maps/default/wanted")
STORED = request("GET /grid/rest/maps/default/k")
LAST = request("GET /grid/rest/maps/default/smuggled", "Connection: close")
ALONE = {
    **MALFORMED,
    **{
        f"{name}, all of it a name": data.replace(b"default", b"default" + name.encode())
        for name, data in (("%0d%0a", MALFORMED["no host"]), ("%00", MALFORMED["two hosts"]))
    },
}


@pytest.fixture
def log() -> str:
    """What is refused here reaches no log."""
    return "memory"


async def ending(member: RunningMember, pieces: list[bytes]) -> bytes:
    """Return all answers on a connection up to its end."""
    async with await Peer.connect(member.port) as peer:
        await peer.send_pieces(pieces)
        return await peer.to_end()


async def untouched(member: RunningMember) -> bool:
    """Tell whether neither the malformed write nor that behind it was carried out."""
    smuggled = await ask(member, request("GET /grid/rest/maps/default/smuggled"))
    return all(
        found.startswith(b"HTTP/1.1 204 ") for found in (smuggled, await ask(member, STORED))
    )


async def both(pair: Pair, pieces: list[bytes]) -> tuple[bytes, list[str]]:
    """Return what the fast path's member answered, and what is wrong with that."""
    problems: list[str] = []
    fast_path, aiohttp = [await ending(member, pieces) for member in pair]
    if fast_path != aiohttp:
        problems.append(f"{fast_path[:400]!r} with the fast path, {aiohttp[:400]!r} without")
    if not all([await untouched(member) for member in pair]):
        problems.append("something was carried out")
    return fast_path, problems


async def test_each_alone(pair: Pair) -> None:
    found: dict[str, object] = {}
    for name, data in ALONE.items():
        answers, problems = await both(pair, [data + SMUGGLED])
        if not answers.startswith(b"HTTP/1.1 400 ") or answers.count(b"HTTP/1.1 ") != 1:
            problems.append(f"refused it should be: {answers[:400]!r}")
        if problems:
            found[name] = problems
    assert found == {}


@pytest.mark.parametrize("behind", ["a write", "a read", "a poll"])
async def test_each_behind_a_good_one(pair: Pair, behind: str) -> None:
    before = {
        "a write": GOOD,
        "a read": WANTED,
        "a poll": request("DELETE /grid/rest/queues/default/0"),
    }
    found: dict[str, object] = {}
    for name, data in ALONE.items():
        answers, problems = await both(pair, [before[behind] + data + SMUGGLED])
        if b"HTTP/1.1 400 " not in answers or answers.count(b"HTTP/1.1 ") != 2:
            problems.append(f"one answer and one refusal it should be: {answers[:600]!r}")
        if problems:
            found[name] = problems
    assert found == {}


async def test_each_byte_by_byte(pair: Pair) -> None:
    found: dict[str, object] = {}
    for name, data in ALONE.items():
        pieces = [data[n : n + 1] for n in range(len(data))]
        answers, problems = await both(pair, [GOOD, *pieces, SMUGGLED])
        if b"HTTP/1.1 400 " not in answers or answers.count(b"HTTP/1.1 ") != 2:
            problems.append(f"one answer and one refusal it should be: {answers[:600]!r}")
        if problems:
            found[name] = problems
    assert found == {}


@pytest.mark.parametrize("rest", ["?key=good", "?", "?a/b", "/?key=good", "/?"])
async def test_a_clear_with_a_query_changes_nothing(pair: Pair, rest: str) -> None:
    clear = request(f"DELETE /grid/rest/maps/default{rest}")
    read = request("GET /grid/rest/maps/default/good", "Connection: close")
    answers = [await ending(member, [GOOD + clear + read]) for member in pair]
    assert answers[0] == answers[1]
    statuses = [line[9:12] for line in answers[0].split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses == [b"200", b"400", b"200"]
    assert b"\r\nX-Grid-Error: " in answers[0]
    assert answers[0].endswith(b"good")


async def test_what_is_rare_is_handed_over_for_good(pair: Pair, handed: Handed) -> None:
    found: dict[str, object] = {}
    for name, data in HANDED_OVER.items():
        answers: list[list[bytes]] = []
        for member in pair:
            async with await Peer.connect(member.port) as peer:
                first = await peer.ask(GOOD)
                before = handed.has(member, peer)
                peer.send(data + WANTED)
                rest = [await peer.answer(body=name != "HEAD"), await peer.answer()]
                after = handed.has(member, peer)
            answers.append([first, *rest])
            if (before, after) != (member is pair[1], True):
                found[name] = f"with aiohttp before and after: {before}, {after}"
        if answers[0] != answers[1]:
            found[name] = answers
        if answers[0][-1] != await ask(pair[0], WANTED):
            found[name] = "not on its feet afterwards"
    assert found == {}


async def test_what_ends_the_connection_is_handed_over(pair: Pair) -> None:
    found: dict[str, object] = {}
    for name, data in CLOSING.items():
        for pieces in (
            [data + SMUGGLED],
            [GOOD + data + SMUGGLED],
            cut(GOOD + data, [10, 90, 150]),
        ):
            fast_path, problems = await both(pair, pieces)
            if not fast_path.startswith(b"HTTP/1.1 ") or b"Connection: close\r\n" not in fast_path:
                problems.append(f"an answer that closes it should be: {fast_path[:400]!r}")
            if problems:
                found[name] = problems
    assert found == {}


async def test_a_length_hides_nothing(pair: Pair) -> None:
    """The bytes of a body are never a request, those behind it are always one."""
    body = SMUGGLED + MALFORMED["two lengths"]
    for path in ("maps/default/hidden", "queues/default"):
        data = request(f"POST /grid/rest/{path}", body=body) + LAST
        fast_path, problems = await both(pair, [data])
        assert problems == []
        assert [line[:12] for line in fast_path.split(b"\r\n\r\n")[:-1]] == [
            *(b"HTTP/1.1 200", b"HTTP/1.1 204"),
        ]
