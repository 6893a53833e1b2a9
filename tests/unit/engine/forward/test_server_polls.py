"""What a host does with polls of others while its lease is too short for them."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, Item, Refused
from grid_member.engine.forward import client, server_session, session
from grid_member.engine.forward.messages import Frame, FrameKind
from grid_member.engine.forward.server_session import ServerPoll
from grid_member.engine.forward.session import SILENT_S
from grid_member.engine.leasehold import LATE, steady_s
from grid_member.engine.local.maps import PASSIVE
from grid_member.engine.local.polls import NoPoll
from tests.unit.engine.drive import awaited, condition
from tests.unit.engine.forward.parties import Parties

if TYPE_CHECKING:
    from grid_member.engine.api import Done, Poll

LONG_S = 600.0
PATIENCE_S = 8.0
"""Less than a call waits for its outcome."""
pytestmark = pytest.mark.interpreted


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.01)
    monkeypatch.setattr(client, "FIND_S", 0.1)
    monkeypatch.setattr(session, "SILENT_S", LONG_S / 4)


def leased_for(parties: Parties, left_s: float) -> None:
    """Let the host hand out items for so long."""
    poll = parties.engine.queue_poll
    until_s = steady_s() + left_s
    parties.engine.leased_until_s = until_s

    def queue_poll(name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        def leased(outcome: Item | Refused | None) -> None:
            if isinstance(outcome, Item):
                outcome.until_s = until_s
            done(outcome)

        return poll(name, timeout_s, leased)

    parties.engine.queue_poll = queue_poll  # type: ignore[method-assign]


async def test_an_item_of_a_long_lease_is_given_on() -> None:
    async with Parties() as parties:
        assert await parties.data.offer("q", b"i") is True
        leased_for(parties, LONG_S)
        outcome = await parties.poll("q")
        assert isinstance(outcome, Item)
        # The lite member goes by the host's heartbeats.
        assert outcome.until_s < steady_s() + LONG_S / 2


async def test_a_poll_that_is_forwarded_waits_for_a_lease_that_is_long_enough() -> None:
    async with Parties() as parties:
        assert await parties.data.offer("q", b"i") is True
        leased_for(parties, SILENT_S / 2)
        asked = asyncio.ensure_future(parties.poll("q"))
        await condition(lambda: waiting_for_a_lease(parties))
        assert not asked.done()
        leased_for(parties, LONG_S)
        assert isinstance(await asyncio.wait_for(asked, PATIENCE_S), Item)


async def test_an_item_that_comes_too_late_to_be_given_on_is_taken_again() -> None:
    async with Parties() as parties:
        leased_for(parties, SILENT_S / 2)
        parties.engine.leased_until_s = math.inf  # as it was when the poll came
        asked = asyncio.ensure_future(parties.poll("q", LONG_S))
        await condition(lambda: polls_of(parties) == 1 and not waiting_for_a_lease(parties))
        parties.engine.leased_until_s = steady_s() + SILENT_S / 2
        assert await parties.data.offer("q", b"i") is True
        await condition(lambda: waiting_for_a_lease(parties))
        assert not asked.done()
        leased_for(parties, LONG_S)
        assert isinstance(await asyncio.wait_for(asked, PATIENCE_S), Item)


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_lease_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    async with Parties() as parties:
        assert await parties.data.offer("q", b"i") is True
        leased_for(parties, SILENT_S / 2)
        if refuses:  # no lease can come
            parties.engine.answering = False
        else:
            monkeypatch.setattr(server_session, "LEASE_PATIENCE_S", 2 * server_session.LEASE_LOOK_S)
        assert isinstance(await asyncio.wait_for(parties.poll("q"), PATIENCE_S), Refused)
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"


async def test_a_poll_that_waits_for_a_lease_is_cancelled() -> None:
    async with Parties() as parties:
        assert await parties.data.offer("q", b"i") is True
        leased_for(parties, SILENT_S / 2)
        waiting = parties.lite.call(Frame(FrameKind.QUEUE_POLL, 0, "q"), lambda outcome: None, 0.0)
        await condition(lambda: waiting_for_a_lease(parties))
        parties.lite.cancel(waiting)
        await condition(lambda: not polls_of(parties))
        leased_for(parties, LONG_S)
        assert isinstance(await asyncio.wait_for(parties.poll("q"), PATIENCE_S), Item)


class NoEngine:
    """An engine whose lease is what the test says, and whose polls it answers."""

    def __init__(self) -> None:
        self.leased_until_s = -math.inf
        self.answering = self.takes_polls = True
        self.polls: list[tuple[float, Done[Item | None]]] = []
        self.returned: list[Item] = []

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        self.polls.append((timeout_s, done))
        return NoPoll()

    def queue_return(self, item: Item) -> None:
        self.returned.append(item)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_session, "LEASE_PATIENCE_S", 0.1)
    monkeypatch.setattr(server_session, "LEASE_LOOK_S", 0.01)


@pytest.mark.usefixtures("quick")
async def test_a_lease_is_waited_for_in_the_whole_own_time_of_a_poll() -> None:
    engine, heard, loop = NoEngine(), list[object](), asyncio.get_running_loop()
    begun = loop.time()
    ServerPoll(engine, "q", 0.3, heard.append).begin()
    await condition(lambda: bool(heard))
    assert heard == [LATE]
    assert loop.time() >= begun + 0.3 + 0.1


@pytest.mark.usefixtures("quick")
async def test_a_gap_of_leases_takes_nothing_from_the_wait_in_another_one() -> None:
    engine, heard, loop = NoEngine(), list[object](), asyncio.get_running_loop()
    ServerPoll(engine, "q", LONG_S, heard.append).begin()
    engine.leased_until_s = math.inf
    await condition(lambda: bool(engine.polls))
    later = loop.time() + 0.2  # longer than a lease is waited for
    await condition(lambda: loop.time() > later)
    item = Item(b"v", None, "q", 1, 2)
    item.until_s = steady_s()
    _, answer = engine.polls.pop()
    answer(item)
    assert (heard, engine.returned) == ([], [item])
    await condition(lambda: bool(engine.polls))
    engine.polls.pop()[1](None)
    assert heard == [None]


@pytest.mark.usefixtures("quick")
async def test_a_poll_that_waits_for_a_lease_ends_with_the_polls_of_its_host() -> None:
    async with Parties() as parties:
        leased_for(parties, -LONG_S)
        asked = asyncio.ensure_future(parties.poll("q", LONG_S))
        await condition(lambda: waiting_for_a_lease(parties))
        changed = awaited(partial(parties.engine.change_cluster_state, ClusterState.PASSIVE))
        assert await changed is True
        assert await asyncio.wait_for(asked, PATIENCE_S) == PASSIVE


async def test_a_poll_that_waits_for_a_lease_is_asked_elsewhere_when_its_host_leaves() -> None:
    async with Parties() as parties:
        leased_for(parties, -LONG_S)
        parties.lite.call(
            Frame(FrameKind.QUEUE_POLL, 0, "q", number=1000), lambda outcome: None, 1.0
        )
        await condition(lambda: waiting_for_a_lease(parties))
        parties.hosts[0].leave()
        assert not polls_of(parties)


def polls_of(parties: Parties) -> int:
    return sum(len(session._polls) for session in parties.hosts[0]._sessions.values())


def waiting_for_a_lease(parties: Parties) -> bool:
    """Tell whether polls of sessions are there, and all of them wait for a lease."""
    polls = [poll for one in parties.hosts[0]._sessions.values() for poll in one._polls.values()]
    return bool(polls) and all(poll._timer is not None for poll in polls)
