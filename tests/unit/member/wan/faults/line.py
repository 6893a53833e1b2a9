"""What is between two clusters: requests get lost, late, doubled, spoiled or unanswered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.wan.client import UNKNOWN_USER
from grid_member.wan.hello import HelloError, read_hello, write_welcome
from grid_member.wan.link import CHANGES_PATH, HELLO_PATH
from grid_member.wan.ports import (
    BusyError,
    ConflictError,
    OverloadedError,
    RefusedError,
    UnreachableError,
)
from grid_member.wan.protocol import ProtocolError, with_checksum

if TYPE_CHECKING:
    import random

    from grid_member.wan.endpoints import Address
    from grid_member.wan.receiver import Receiver
    from tests.unit.member.wan.faults.clusters import Cluster

ANSWER_S: Final = 2.0
READ_S: Final = 0.2
"""How long a batch may be on its way from its queue to the line."""
LATEST_AGAIN_S: Final = 15.0
"""A request that is doubled comes again after so long at most."""


class Weather(NamedTuple):
    """How often what befalls a request."""

    lost: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    spoiled: float = 0.0
    unanswered: float = 0.0
    spoiled_answers: float = 0.0


CALM: Final = Weather()
BAD: Final = (
    Weather(lost=0.3, unanswered=0.3),
    Weather(late=0.5),
    Weather(doubled=0.5),
    Weather(spoiled=0.7),
    Weather(lost=0.1, late=0.2, doubled=0.2, spoiled=0.2, unanswered=0.2, spoiled_answers=0.2),
)


class Line:
    """Carries requests from one cluster to the other one, as well as the weather allows."""

    def __init__(self, source: Cluster, target: Cluster, chance: random.Random) -> None:
        self.weather = CALM
        self.is_cut = False
        self.under_way: set[asyncio.Task[bytes]] = set()
        self.sent_in_silence = 0
        """Batches of a publisher that was PAUSED or STOPPED."""
        self._source = source
        self._target = target
        self._chance = chance
        source.transport = self

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        silent_s = self._source.silent_since_s
        if path == CHANGES_PATH and silent_s is not None:
            self.sent_in_silence += asyncio.get_running_loop().time() > silent_s + READ_S
        delivery = self._sent(path, body)
        try:
            return await asyncio.wait_for(asyncio.shield(delivery), ANSWER_S)
        except TimeoutError:
            raise UnreachableError("no answer in time") from None

    async def close(self) -> None:
        """What is under way arrives all the same."""

    def _sent(self, path: str, body: bytes) -> asyncio.Task[bytes]:
        delivery = asyncio.create_task(self._carry(path, body, self._source.shows))
        self.under_way.add(delivery)
        delivery.add_done_callback(self._arrived)
        return delivery

    def _arrived(self, delivery: asyncio.Task[bytes]) -> None:
        self.under_way.discard(delivery)
        if not delivery.cancelled():
            delivery.exception()  # a request that nobody waits for may fail

    async def _carry(self, path: str, body: bytes, password: str) -> bytes:
        chance, weather = self._chance, self.weather
        if chance.random() < weather.doubled:
            again = chance.uniform(0.01, LATEST_AGAIN_S)
            asyncio.get_running_loop().call_later(again, self._sent, path, body)
        await asyncio.sleep(chance.uniform(0.001, 0.02))
        if self._breaks(weather.lost):
            raise UnreachableError("Connection reset by peer")
        if chance.random() < weather.late:
            await asyncio.sleep(chance.uniform(0.1, 4.0))
        if chance.random() < weather.spoiled:
            body = _spoiled(body, chance)
        answer = await self._deliver(path, body, password)
        if self._breaks(weather.unanswered):
            raise UnreachableError("the target closed the connection")
        if weather.spoiled_answers and chance.random() < weather.spoiled_answers:
            answer = _spoiled(answer, chance)
        return answer

    def _breaks(self, how_often: float) -> bool:
        return self.is_cut or self._chance.random() < how_often

    async def _deliver(self, path: str, body: bytes, password: str) -> bytes:
        running = self._target.running
        if running is None:
            raise UnreachableError("Connection refused")
        if password != self._target.asks:
            raise RefusedError(UNKNOWN_USER)
        serving = asyncio.create_task(_answer(running.receiver, path, body))
        running.serving.add(serving)
        serving.add_done_callback(running.serving.discard)
        await asyncio.wait([serving])
        if serving.cancelled():
            raise UnreachableError("the target closed the connection")
        return serving.result()


async def _answer(receiver: Receiver, path: str, body: bytes) -> bytes:
    """Answer as the WAN listener does, and as the client understands it."""
    try:
        if path == HELLO_PATH:
            return write_welcome(receiver.greet(read_hello(body)))
        return with_checksum(await receiver.take(body), body)
    except BusyError as problem:
        raise OverloadedError(str(problem), 1.0) from None
    except (ProtocolError, ConflictError, HelloError) as problem:
        raise RefusedError(str(problem)) from None


def _spoiled(body: bytes, chance: random.Random) -> bytes:
    """Return half of it, or all with a byte changed."""
    place = chance.randrange(len(body))
    if chance.random() < 0.25:
        return body[:place]
    return body[:place] + bytes((body[place] ^ chance.randrange(1, 256),)) + body[place + 1 :]
