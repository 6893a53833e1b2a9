"""Promise: a question that a member of the target works on is repeated at that member."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from grid_member.wan.comparison.answering import Answering
from grid_member.wan.comparison.messages import read_digests_answer, write_digests_question
from grid_member.wan.endpoints import Endpoints
from grid_member.wan.figures import PublisherFigures
from grid_member.wan.jobs.lane import Lane, LaneSettings, Patience
from grid_member.wan.link import DIGESTS_PATH, Link, LinkParts
from grid_member.wan.pacing import SLICE, Pacer
from grid_member.wan.ports import BusyError, OverloadedError, TargetError
from grid_member.wan.protocol import with_checksum
from tests.unit.engine.wan.agreements import LONDON
from tests.unit.member.wan.comparison.test_buckets import CountedMap, Work
from tests.unit.member.wan.comparison.test_messages import ABOUT
from tests.unit.member.wan.fakes import hello
from tests.unit.member.wan.virtual_time import play

if TYPE_CHECKING:
    from grid_member.wan.endpoints import Address

MEMBERS: Final = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
TURN_S: Final = 5.0
"""Longer than a target lets a question wait."""
KEYS: Final = SLICE + 1
QUESTION: Final = write_digests_question(ABOUT._replace(include=(), exclude=()))


def answering() -> Answering:
    """Return a member that takes `TURN_S` for the walk through its map."""

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(TURN_S)

    found = CountedMap(Work(), (), {f"key-{number}": b"v" for number in range(KEYS)})
    clock = asyncio.get_running_loop().time
    return Answering(lambda _: found, lambda _: True, Pacer(clock, sleep))


@dataclass
class Line:
    """Carries questions to the members of a target."""

    members: dict[str, Answering]
    asked: list[str] = field(default_factory=list)
    faults: list[TargetError | None] = field(default_factory=list)
    """What becomes of the next questions; None is no fault."""

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        self.asked.append(address.ip)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        try:
            answer = await self.members[address.ip].digests(body, lambda *_: None)
        except BusyError as problem:
            raise OverloadedError(str(problem), 1.0) from None
        return with_checksum(answer, body)


async def asked(*faults: TargetError | None) -> list[str]:
    """Ask a question until it is answered, and return the members that were asked."""
    clock = asyncio.get_running_loop().time

    async def resolve(host: str, port: int) -> list[str]:
        return MEMBERS

    async def seal(body: bytes) -> bytes:
        return body

    line = Line({ip: answering() for ip in MEMBERS}, faults=[*faults])
    endpoints = Endpoints((("london", 5705),), clock, 1000.0, 100, resolve)
    link = Link(LinkParts(line, endpoints, hello, PublisherFigures(), clock))
    settings = LaneSettings(LONDON, ABOUT.source, 0, 1, 500, 2, 100, removes_extra=False)
    shard: Any = None
    patience = Patience(Lane(settings, shard, link, Pacer(clock), clock, asyncio.sleep, seal))
    try:
        found = read_digests_answer(await patience.post(DIGESTS_PATH, QUESTION))
        assert sum(found.digests.counts) == KEYS
    finally:
        link.close()
        await asyncio.gather(*(member.close() for member in line.members.values()))
    return line.asked


def test_one_member_does_a_walk_that_takes_long() -> None:
    found = play(asked())
    assert len(found) > 2
    assert len({*found}) == 1


def test_a_member_that_takes_nothing_now_is_not_waited_for() -> None:
    busy = [OverloadedError("too many maps are compared at once", 1.0) for _ in range(2)]
    found = play(asked(*busy))
    assert len({*found[:3]}) == 3
    assert len({*found[2:]}) == 1
