"""What a lite member and its hosts make of lost messages, losses of hosts and departures."""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Entry, Item, Reason, Refused
from grid_member.engine.forward import client, server
from grid_member.engine.forward import session as session_module
from grid_member.engine.forward.messages import TOO_LARGE, Frame, FrameKind, session_end
from grid_member.engine.leasehold import steady_s
from tests.unit.engine.drive import condition
from tests.unit.engine.forward.parties import Parties

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 10.0
LONG_S = 600.0
KEYS = 40
PROVEN_S = client.LASTS_S + 2 * client.LOOK_S
"""How long it takes at most until a host counts that gives each sign of life at once."""
LATELY_S = client.LATELY_S


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.01)
    monkeypatch.setattr(client, "FIND_S", 0.1)
    # A process that stands still for a moment must not take a host for silent: it is long, too,
    # where no test waits for that.
    monkeypatch.setattr(session_module, "SILENT_S", LONG_S)


@pytest.fixture
def soon_silent(monkeypatch: pytest.MonkeyPatch, hasty: None) -> None:
    monkeypatch.setattr(session_module, "SILENT_S", 0.5)


def losing(chance: random.Random, share: float) -> Callable[[bytes], bool]:
    """Lose some of all messages but for those that find a host."""
    return lambda subject: not subject.startswith(b"grid.hosts") and chance.random() < share


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_lost_on_the_way_is_done_once_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    async with Parties() as parties:
        parties.bus.lose = losing(chance, 0.1)

        async def write(number: int) -> tuple[int, bool]:
            await asyncio.sleep(chance.random() / 10)
            value = b"%d" % number
            refused = await parties.put("m", f"k{number}", value)
            offered = await parties.offer("q", value)
            read = await parties.get("m", f"k{number}")
            assert not isinstance(read, Refused)  # a read is asked again until it is answered
            if refused is None:
                assert read == Entry(value, None)
            return number, offered is True

        received: list[int] = []
        ended = False

        async def consume() -> None:
            while not ended:
                item = await parties.poll("q", 0.05)
                if isinstance(item, Item):
                    received.append(int(item.value))
                    parties.lite.end_delivery(FrameKind.QUEUE_CONFIRM, item)

        consumers = [asyncio.ensure_future(consume()) for _ in range(3)]
        outcomes = await asyncio.gather(*(write(number) for number in range(KEYS)))
        sure = {number for number, offered in outcomes if offered}
        await condition(lambda: sure <= set(received), PATIENCE_S)
        parties.bus.lose = lambda subject: False
        await condition(lambda: not any(
            shard.state.queues.by_name for shard in parties.engine.shards), PATIENCE_S)  # fmt: skip
        ended = True
        await asyncio.gather(*consumers)
        assert len(received) == len(set(received)), "an item was delivered twice"


async def test_a_write_whose_host_is_gone_is_refused_and_a_read_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Parties(2) as parties:
        assert await parties.put("m", "k", b"v") is None
        # The first host hears of both and never answers: it dies.
        parties.bus.lose = lambda subject: subject.startswith(b"_INBOX")
        write = asyncio.ensure_future(parties.put("m", "k", b"w"))
        read = asyncio.ensure_future(parties.get("m", "k"))
        stored = Entry(b"w", None)
        await condition(lambda: parties.engine.map_peek("m", "k") == b"w")
        parties.silence()
        parties.bus.lose = lambda subject: False
        refused = await asyncio.wait_for(write, PATIENCE_S)
        assert isinstance(refused, Refused)
        assert "may or may not" in refused.message
        parties.hosts[1].start()
        assert await asyncio.wait_for(read, PATIENCE_S) == stored


async def test_what_nobody_heard_is_asked_of_the_next_host() -> None:
    async with Parties(2) as parties:
        assert await parties.put("m", "k", b"v") is None
        parties.silence()
        write = asyncio.ensure_future(parties.put("m", "k", b"w"))
        await condition(lambda: not parties.lite.in_contact)
        parties.hosts[1].start()
        assert await asyncio.wait_for(write, PATIENCE_S) is None
        assert await parties.data.value("m", "k") == b"w"


async def test_a_host_that_leaves_hands_over_without_a_refusal() -> None:
    async with Parties(2) as parties:
        waiting = asyncio.ensure_future(parties.poll("q", LONG_S))
        await condition(lambda: bool(parties.engine._polls))
        item = await held(parties, "other")
        parties.hosts[1].start()
        parties.hosts[0].leave()
        writes = [parties.put("m", f"k{number}", b"v") for number in range(20)]
        assert set(await asyncio.gather(*writes)) == {None}
        assert await parties.offer("q", b"i") is True
        found = await asyncio.wait_for(waiting, PATIENCE_S)
        assert isinstance(found, Item)
        # It came from the first one, and is confirmed there.
        parties.lite.end_delivery(FrameKind.QUEUE_CONFIRM, item)
        await condition(lambda: not any(
            "other" in shard.state.queues.by_name for shard in parties.engine.shards))  # fmt: skip


@pytest.mark.parametrize("lacking", ["in_contact", "leased"])
async def test_a_host_without_a_majority_or_lease_is_left_for_one_that_has_it(lacking: str) -> None:
    async with Parties(2) as parties:
        assert await parties.put("m", "k", b"v") is None
        first = parties.lite._server
        setattr(parties.engine, lacking, False)
        await condition(lambda: not parties.lite.in_contact)
        assert await parties.put("m", "k", b"w") is None  # it may be better than none
        parties.replace_host(1)
        setattr(parties.engine, lacking, True)
        await condition(lambda: parties.lite.in_contact)
        assert parties.lite._server is not first


def answering(parties: Parties) -> bool:
    return parties.lite.answering


def session(parties: Parties) -> tuple[bytes, int]:
    """Return the session that the lite member has now."""
    lite = parties.lite
    return lite._incarnation, max((host._session for host in lite._servers.values()), default=0)


async def test_who_has_no_host_looks_for_one_before_it_says_that_it_answers_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "LATELY_S", math.inf)
    async with Parties(2) as parties:
        await condition(lambda: parties.lite.answering)
        parties.silence()
        write = asyncio.ensure_future(parties.put("m", "k", b"v"))
        await condition(lambda: not parties.lite.in_contact)
        assert answering(parties)
        monkeypatch.setattr(client, "LATELY_S", 0.0)
        assert not answering(parties)
        parties.hosts[1].start()
        await condition(lambda: parties.lite.answering)
        assert await asyncio.wait_for(write, PATIENCE_S) is None


@pytest.mark.parametrize("silent", [False, True])
async def test_a_host_that_breaks_each_session_is_none(
    monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(client, "LATELY_S", 0.2)
    monkeypatch.setattr(client, "LASTS_S", 0.3)
    monkeypatch.setattr(session_module, "SILENT_S", 0.1)
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        found, hear = parties.bus.carried, server.ForwardServer._hear
        if silent:
            parties.bus.lose = lambda subject: subject.startswith(b"grid.forward")
        else:
            monkeypatch.setattr(
                server.ForwardServer, "_hear", lambda *_: session_end(*session(parties))
            )
        await condition(lambda: not parties.lite.answering)
        refused = await asyncio.wait_for(parties.put("m", "k", b"w"), PATIENCE_S)
        assert isinstance(refused, Refused)
        await condition(lambda: parties.bus.carried > found + 100)
        assert not answering(parties), "it found a host again and again, and that was all"
        parties.bus.lose = lambda subject: False
        monkeypatch.setattr(server.ForwardServer, "_hear", hear)
        await condition(lambda: parties.lite.answering)
        assert await parties.put("m", "k", b"x") is None


async def find_another_host(parties: Parties) -> None:
    """Lose the session with a host that carried something out, and be found by the other one."""
    assert await parties.put("m", "k", b"v") is None
    parties.silence()
    await condition(lambda: not parties.lite.in_contact)
    parties.hosts[1].start()
    await condition(lambda: parties.lite._server is not None)


async def test_what_a_host_carries_out_shows_at_once_that_sessions_work_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "LASTS_S", math.inf)
    async with Parties(2) as parties:
        await find_another_host(parties)
        assert not parties.lite.in_contact
        assert await asyncio.wait_for(parties.put("m", "k", b"w"), PATIENCE_S) is None
        assert parties.lite.in_contact


async def test_what_never_got_to_a_host_shows_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "LASTS_S", math.inf)
    async with Parties(2) as parties:
        await find_another_host(parties)
        parties.of_lite.max_payload_bytes = 1000
        refused = await asyncio.wait_for(parties.put("m", "k", bytes(2000)), PATIENCE_S)
        assert refused == TOO_LARGE
        assert not parties.lite.in_contact
        assert await asyncio.wait_for(parties.put("m", "k", b"w"), PATIENCE_S) is None
        assert parties.lite.in_contact


def test_who_loses_two_sessions_in_a_row_is_not_told_to_have_no_host() -> None:
    assert 2 * PROVEN_S < LATELY_S


async def test_items_of_a_silent_guest_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SESSION_SILENT_S", 0.3)
    monkeypatch.setattr(server, "LOOK_S", 0.05)
    async with Parties() as parties:
        await held(parties, "q")
        waiting = asyncio.ensure_future(parties.poll("q", LONG_S))
        await condition(lambda: not parties.engine._polls["q"].idle)
        parties.bus.lose = lambda subject: True
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"
        assert parties.engine._polls["q"].idle
        assert not waiting.done()


@pytest.mark.usefixtures("soon_silent")
async def test_items_stay_with_a_guest_that_changes_its_host() -> None:
    async with Parties(2) as parties:
        item = await held(parties, "q")
        parties.hosts[1].start()
        parties.engine.in_contact = False
        await condition(lambda: not parties.lite.in_contact)
        parties.engine.in_contact = True
        await condition(lambda: parties.lite.in_contact)
        parties.bus.lose = lambda subject: True  # for a moment, which ends all sessions
        await condition(lambda: not parties.lite.in_contact)
        parties.bus.lose = lambda subject: False
        await condition(lambda: parties.lite.in_contact)
        assert await parties.poll("q") is None
        parties.lite.end_delivery(FrameKind.QUEUE_RETURN, item)
        again = await asyncio.wait_for(parties.poll("q", LONG_S), PATIENCE_S)
        assert isinstance(again, Item)


@pytest.mark.usefixtures("soon_silent")
async def test_an_item_of_a_lost_poll_returns_though_another_host_is_asked_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "SESSION_SILENT_S", LONG_S)
    async with Parties(2) as parties:
        assert await parties.put("m", "k", b"v") is None
        parties.hosts[0]._subscriptions[0].unsubscribe()  # it is found no more, and goes on
        parties.hosts[1].start()
        assert await parties.data.offer("q", b"i") is True
        parties.bus.lose = lambda subject: subject.startswith(b"_INBOX")
        assert isinstance(await asyncio.wait_for(parties.poll("q"), PATIENCE_S), Refused)
        parties.bus.lose = lambda subject: False
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"
        assert await parties.put("m", "k", b"w") is None
        former = parties.hosts[0]
        await condition(lambda: not former._sessions and len(parties.lite._servers) == 1)


@pytest.mark.usefixtures("soon_silent")
async def test_what_was_meant_for_one_that_stood_still_is_handed_out_to_nobody() -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        assert await parties.data.offer("q", b"i") is True
        host, timer = parties.lite._server, parties.lite._timer
        assert host is not None
        assert timer is not None
        timer.cancel()
        parties.bus.hold = lambda subject: subject.startswith(b"_INBOX")
        poll = asyncio.ensure_future(parties.poll("q"))
        await condition(lambda: bool(parties.bus.held))
        await condition(lambda: time_since(host.heard_s) > session_module.SILENT_S)
        parties.bus.release()
        assert isinstance(await asyncio.wait_for(poll, PATIENCE_S), Refused)
        # The next session tells the host that nobody has the item.
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"


def time_since(moment_s: float) -> float:
    return steady_s() - moment_s


@pytest.mark.parametrize("way", [b"grid.forward", b"_INBOX"])
async def test_a_single_loss_is_found_long_before_patience_ends(way: bytes) -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        lost: list[bytes] = []

        def lose(subject: bytes) -> bool:
            if lost or not subject.startswith(way):
                return False
            lost.append(subject)
            return True

        parties.bus.lose = lose
        write = asyncio.ensure_future(parties.put("m", "k", b"w"))
        assert isinstance(await asyncio.wait_for(write, client.PATIENCE_S / 2), Refused)
        assert lost


async def test_a_poll_that_nobody_wants_any_more_takes_nothing() -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        frame = Frame(FrameKind.QUEUE_POLL, 0, "q", number=60_000)
        first, second = (
            parties.lite.call(frame, lambda _: pytest.fail("cancelled")) for _ in range(2)
        )
        await condition(lambda: waiting(parties) == 2)
        parties.lite.cancel(first)
        await condition(lambda: waiting(parties) == 1)
        # The host hears of it too late, and of the item that comes back then.
        parties.bus.hold = lambda subject: subject.startswith(b"grid.forward")
        parties.lite.cancel(second)
        assert await parties.data.offer("q", b"i") is True
        sessions = parties.hosts[0]._sessions.values()
        await condition(lambda: any(session._out for session in sessions))
        parties.bus.release()
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"


def waiting(parties: Parties) -> int:
    """Return how many polls wait at the host."""
    polls = parties.engine._polls.get("q")
    return 0 if polls is None else len(polls._waiting)


async def test_without_a_host_calls_wait_and_then_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.2)
    async with Parties() as parties:
        parties.silence()
        refused = await parties.put("m", "k", b"v")
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.UNAVAILABLE
        await condition(lambda: at_once(parties))
        parties.hosts[0].start()
        await condition(lambda: parties.lite.in_contact)
        assert await parties.put("m", "k", b"v") is None


async def test_too_many_calls_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_CALLS", 2)
    async with Parties() as parties:
        outcomes = await asyncio.gather(*(parties.put("m", "k", b"v") for _ in range(3)))
        assert [isinstance(one, Refused) for one in outcomes] == [False, False, True]
        assert await parties.put("m", "k", b"v") is None


async def held(parties: Parties, queue: str) -> Item:
    assert await parties.data.offer(queue, b"i") is True
    item = await parties.poll(queue)
    assert isinstance(item, Item)
    return item


def at_once(parties: Parties) -> bool:
    """Tell whether a call is refused before it returns."""
    outcomes: list[object] = []
    parties.lite.call(Frame(FrameKind.MAP_GET, 0, "m", "k"), outcomes.append)
    return len(outcomes) == 1
