"""Offers that a queue does not take, by the fast path as by aiohttp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.member.http.fastpath.peers import Handed, Peer, request
from tests.unit.member.http.fastpath.scripts import OK, read

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

OFFER = request("POST /grid/rest/queues/two", body=b"item")
"""To a queue of two items."""
POLL = request("DELETE /grid/rest/queues/two/0")
FULL = (503, b"", None)
ITEM = (200, b"item", "text/plain")


async def test_one_by_one(pair: tuple[RunningMember, RunningMember], handed: Handed) -> None:
    found = []
    for member in pair:
        async with await Peer.connect(member.port) as peer:
            answers = [await peer.ask(data) for data in (OFFER, OFFER, OFFER, POLL, OFFER, OFFER)]
            assert [read(answer)[:2] for answer in answers] == [
                one[:2] for one in (OK, OK, FULL, ITEM, OK, FULL)
            ]
            assert b"X-Grid-Error: the queue is full" in answers[2]
            found.append((answers, handed.has(member, peer)))
    (fast_path, fast_path_handed), (aiohttp, _) = found
    assert fast_path == aiohttp
    assert not fast_path_handed


async def test_sent_together(pair: tuple[RunningMember, RunningMember], handed: Handed) -> None:
    found = []
    for member in pair:
        async with await Peer.connect(member.port) as peer:
            await peer.send_pieces([OFFER * 4 + POLL + OFFER * 2])
            answers = [await peer.answer() for _ in range(7)]
            assert [read(answer)[:2] for answer in answers] == [
                one[:2] for one in (OK, OK, FULL, FULL, ITEM, OK, FULL)
            ]
            found.append((answers, handed.has(member, peer)))
    (fast_path, fast_path_handed), (aiohttp, _) = found
    assert fast_path == aiohttp
    assert not fast_path_handed
