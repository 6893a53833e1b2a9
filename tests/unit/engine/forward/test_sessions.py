"""What goes wrong inside a session ends no more than it must."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Entry, Item, Refused
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.forward import client, server, server_session
from grid_member.engine.forward import messages as messages_module
from grid_member.engine.forward import session as session_module
from grid_member.engine.forward.messages import (
    FORWARD_SERVERS,
    Flag,
    ForwardMessage,
    Frame,
    FrameKind,
    encode_message,
)
from grid_member.engine.forward.session import ForwardCall
from grid_member.engine.leasehold import steady_s
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.nats.client.errors import RequestTimeoutError
from grid_member.engine.nats.client.wire import Message
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.shard.answers import FAILED
from tests.unit.engine.drive import FixedStructures, awaited, condition
from tests.unit.engine.forward.bus import Connection
from tests.unit.engine.forward.parties import Parties

if TYPE_CHECKING:
    from grid_member.engine.api import Done, Poll
    from grid_member.engine.local.usage import StructureUsage

LONG_S = 600.0
PATIENCE_S = 8.0
"""Less than a call waits for its outcome."""


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.01)
    monkeypatch.setattr(client, "FIND_S", 0.1)
    monkeypatch.setattr(session_module, "SILENT_S", LONG_S / 4)


async def test_signs_of_life_that_come_together_are_all_answered() -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        host = host_of(parties)
        parties.bus.hold = lambda subject: subject.startswith(b"grid.forward")
        await condition(lambda: len(parties.bus.held) > 20)
        parties.bus.release()
        await condition(lambda: len(host._pings) < 5, PATIENCE_S)


@pytest.mark.parametrize("way", ["full", "half_full"])
async def test_outcomes_wait_until_there_is_room(way: str) -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        host, connection = host_of(parties), parties.connections[0]
        session = host._session
        setattr(connection, way, True)
        write = asyncio.ensure_future(parties.put("m", "k", b"w"))
        await condition(lambda: parties.engine.map_peek("m", "k") == b"w")
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + 2 * messages_module.AGAIN_S
        await condition(lambda: now_s() > until_s)
        assert not write.done()
        setattr(connection, way, False)
        assert await asyncio.wait_for(write, PATIENCE_S) is None
        assert host._session == session


async def test_what_was_meant_for_one_whose_machine_slept_is_handed_out_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop's clock stood still meanwhile, and the host may have taken back what it gave."""
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        assert await parties.data.offer("q", b"i") is True
        host, timer = host_of(parties), parties.lite._timer
        assert timer is not None
        timer.cancel()
        parties.bus.hold = lambda subject: subject.startswith(b"_INBOX")
        poll = asyncio.ensure_future(parties.poll("q"))
        await condition(lambda: bool(parties.bus.held))
        read = time.clock_gettime
        monkeypatch.setattr(time, "clock_gettime", lambda clock: read(clock) + LONG_S)
        assert steady_s() > host.until_s
        parties.bus.release()
        assert isinstance(await asyncio.wait_for(poll, PATIENCE_S), Refused)
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"


async def test_an_item_is_held_until_its_host_is_silent() -> None:
    async with Parties() as parties:
        assert await parties.data.offer("q", b"i") is True
        item = await parties.poll("q")
        assert isinstance(item, Item)
        assert steady_s() < item.until_s <= host_of(parties).until_s


async def test_a_host_without_its_connection_ends_the_session() -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        session, connection = host_of(parties)._session, parties.connections[0]
        connection.connected = False
        write = asyncio.ensure_future(parties.put("m", "k", b"w"))
        (known,) = parties.hosts[0]._sessions.values()
        await condition(lambda: known._over)
        connection.connected = True
        assert isinstance(await asyncio.wait_for(write, PATIENCE_S), Refused)
        assert await parties.put("m", "k", b"x") is None
        assert host_of(parties)._session > session


async def test_what_is_too_large_for_a_message_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages_module, "MAX_MESSAGE_BYTES", 500)
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        host = host_of(parties)
        session = host._session
        parties.connections[0].max_payload_bytes = 1000
        large = bytes(2000)
        assert await parties.data.put("m", "large", large) is None
        assert await parties.data.offer("q", large) is True
        outcomes = await asyncio.wait_for(
            asyncio.gather(
                parties.get("m", "large"), parties.poll("q"), parties.get("m", "k")
            ), PATIENCE_S)  # fmt: skip
        for outcome in outcomes[:2]:
            assert isinstance(outcome, Refused)
            assert "larger than members take" in outcome.message
        assert outcomes[2] == Entry(b"v", None)
        assert host._session == session
        assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == large


async def test_another_host_is_looked_for_at_once_when_one_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "LOOK_S", LONG_S)
    async with Parties(2) as parties:
        assert await parties.put("m", "k", b"v") is None
        first = host_of(parties)
        parties.hosts[1].start()
        parties.hosts[0].leave()
        await condition(lambda: parties.lite._server is not first, PATIENCE_S)


async def test_what_is_asked_of_a_host_that_ended_was_not_begun() -> None:
    async with Parties(2) as parties:
        assert await parties.put("m", "k", b"v") is None
        parties.hosts[1].start()
        parties.hosts[0].leave()
        parties.hosts[0].end()
        listening = [one for one in parties.bus.listeners if one.subject.startswith(b"grid.")]
        assert len(listening) == 2, "the host that ended listens further on"
        assert await asyncio.wait_for(parties.put("m", "k", b"w"), PATIENCE_S) is None


async def test_a_call_that_waits_beside_a_host_is_asked_of_it() -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        parties.bus.lose = lambda subject: subject == messages_module.FORWARD_SERVERS
        answers: list[object] = []
        word = Frame(FrameKind.MAP_GET, 10**6, "m", "k")
        call = ForwardCall(word, answers.append, asyncio.get_running_loop().time() + LONG_S)
        parties.lite.take_outcome(host_of(parties), call, Frame(FrameKind.NOT_TAKEN, word.call))
        await condition(lambda: parties.lite._finding is None)
        parties.bus.lose = lambda subject: False
        await condition(lambda: answers == [Entry(b"v", None)], PATIENCE_S)


@pytest.mark.parametrize(
    "word", [Frame(FrameKind.SPREAD, 0, "sideways"), Frame(FrameKind.SPREAD, 0, "in_transition"),
             Frame(FrameKind.ENTRY, 0), Frame(FrameKind.NOT_TAKEN, 0)],
)  # fmt: skip
async def test_what_no_host_knows_is_refused(word: Frame) -> None:
    async with Parties() as parties:
        outcome = await asyncio.wait_for(awaited(parties.asking(word)), PATIENCE_S)
        assert isinstance(outcome, Refused)
        assert "version" in outcome.message


async def test_a_failure_over_one_lite_member_is_none_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Parties() as parties:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        assert await parties.put("m", "k", b"v") is None
        session = host_of(parties)._session
        other = ForwardMessage(bytes(16), 1, 1, Flag.PING, [Frame(FrameKind.MAP_CLEAR, 1, "m")])
        fails = encode_message(other)

        def fail(*_: object) -> None:
            raise RuntimeError("a failure")

        monkeypatch.setattr(parties.engine, "map_clear", fail)
        answers: list[Message] = []
        Connection(parties.bus).subscribe(b"answers", answers.extend)
        heard = parties.hosts[0]._take_messages
        messages = [Message(b"", reply, b"", fails, 1) for reply in (b"", b"answers")]
        parties.hosts[0]._answer_offers(messages)
        heard(messages)
        await condition(lambda: len(answers) == 2)
        said = messages_module.decode_message(answers[1].payload)
        assert said.flags is Flag.BROKEN
        assert await parties.put("m", "k", b"w") is None
        assert host_of(parties)._session == session


@pytest.mark.parametrize(
    ("word", "fails"),
    [
        (Frame(FrameKind.MAP_GET, 0, "m", "k"), "map_get"),
        (Frame(FrameKind.QUEUE_SIZE, 0, "q"), "queue_size"),
        (Frame(FrameKind.USAGE, 0), "structure_usage"),
    ],
)
async def test_a_read_that_fails_on_the_host_is_told_at_once_and_is_no_other_calls_business(
    monkeypatch: pytest.MonkeyPatch, word: Frame, fails: str
) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: reported.append(told))

    def fail(*_: object) -> None:
        raise RuntimeError("a failure")

    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        session = host_of(parties)._session
        monkeypatch.setattr(parties.engine, fails, fail)
        outcomes = await asyncio.wait_for(
            asyncio.gather(
                parties.offer("q", b"i"), awaited(parties.asking(word)), parties.put("m", "k", b"w")
            ), PATIENCE_S)  # fmt: skip
        assert outcomes == [True, FAILED, None]
        assert host_of(parties)._session == session
        assert len(reported) == 1, "it is asked for once"


async def test_what_cannot_be_read_ends_its_session() -> None:
    async with Parties() as parties:
        whole = encode_message(
            ForwardMessage(bytes(range(16)), 7, 1, Flag.PING, [Frame(FrameKind.MAP_GET, 1)])
        )
        answers: list[Message] = []
        Connection(parties.bus).subscribe(b"answers", answers.extend)
        for unread in (whole[:10], whole[:-1], b"\xff" + whole[1:]):
            parties.hosts[0]._take_messages([Message(b"", b"answers", b"", unread, 1)])
        await condition(lambda: len(answers) == 2)
        for answer in answers:
            said = messages_module.decode_message(answer.payload)
            assert (said.incarnation, said.session, said.flags) == (
                bytes(range(16)),
                7,
                Flag.BROKEN,
            )


async def test_a_host_that_stood_still_does_nothing_of_what_is_old() -> None:
    async with Parties() as parties:
        assert await parties.put("m", "k", b"v") is None
        host = parties.hosts[0]
        assert host._timer is not None
        host._timer.cancel()
        host._looked_s -= server.STALL_S + 1
        assert isinstance(await asyncio.wait_for(parties.put("m", "k", b"w"), PATIENCE_S), Refused)
        assert await parties.data.value("m", "k") == b"v"
        host._look()  # what was sent to it meanwhile may come after this
        assert host._timer is not None
        host._timer.cancel()
        assert host.weak
        host._look()
        assert await asyncio.wait_for(parties.put("m", "k", b"x"), PATIENCE_S) is None


async def test_a_lite_member_hears_whether_the_shards_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Parties() as parties:
        seen = [parties.lite.agreed]
        assert await parties.put("m", "k", b"v") is None
        seen.append(parties.lite.agreed)
        assert seen == [False, True]
        monkeypatch.setattr(type(parties.engine), "agreed", False)
        await condition(lambda: not parties.lite.agreed, PATIENCE_S)


async def test_what_a_lite_member_holds_need_not_fit_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages_module, "MAX_MESSAGE_BYTES", 200)
    async with Parties() as parties:
        parties.of_lite.max_payload_bytes = 400
        items: list[Item] = []
        for _ in range(9):
            assert await parties.data.offer("q", b"i") is True
            item = await parties.poll("q")
            assert isinstance(item, Item)
            items.append(item)
        host = host_of(parties)
        session = host._session
        host.lose()
        await condition(lambda: parties.lite.in_contact and host._session > session)
        assert await parties.poll("q") is None  # none of them went back
        for item in items:
            parties.lite.end_delivery(FrameKind.QUEUE_RETURN, item)
        for _ in items:
            assert await asyncio.wait_for(parties.data.take("q", LONG_S), PATIENCE_S) == b"i"


async def test_a_failure_to_tell_what_is_held_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(found: list[StructureUsage]) -> bytes:
        raise MemoryError("a failure")

    monkeypatch.setattr(server_session, "encode_usage", fail)
    async with Parties() as parties:
        usage = parties.asking(Frame(FrameKind.USAGE, 0))
        assert isinstance(await asyncio.wait_for(awaited(usage), PATIENCE_S), Refused)


async def test_whoever_asked_what_is_held_may_leave() -> None:
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: failed.append(found))
    async with Parties() as parties:
        members = ("h", 1), ("h", 2)
        shards = ReplicatedShards(ClusterSettings("dev", "m", 1, members, "u", "p", lite=True))
        lite = PartEngine(FixedStructures(), shards, wall_clock_ms)
        lite._refusal, lite._forward_client = None, parties.lite
        told = await lite.cluster_usage()
        assert told == []
        asking = asyncio.ensure_future(lite.cluster_usage())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert parties.lite._calls == 1
        await condition(lambda: not parties.lite._calls)
    assert failed == []


def host_of(parties: Parties) -> session_module.ClientSession:
    host = parties.lite._server
    assert host is not None
    return host


async def test_an_item_that_went_back_is_not_sent_when_there_is_room_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Parties() as parties:
        assert await parties.offer("q", b"i") is True
        host, connection, poll = host_of(parties), parties.connections[0], parties.engine.queue_poll

        def queue_poll(name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
            def late(outcome: Item | Refused | None) -> None:
                if isinstance(outcome, Item):
                    outcome.until_s = steady_s()
                done(outcome)

            return poll(name, timeout_s, late)

        returned: list[Item] = []
        monkeypatch.setattr(server_session, "LEASE_PATIENCE_S", 0.0)
        monkeypatch.setattr(parties.engine, "queue_poll", queue_poll)
        monkeypatch.setattr(parties.engine, "queue_return", returned.append)
        connection.half_full = True
        asked = asyncio.ensure_future(parties.poll("q"))
        await condition(lambda: len(returned) == 1)
        session = host._session
        connection.half_full = False
        assert isinstance(await asyncio.wait_for(asked, PATIENCE_S), Refused)
        assert host._session == session, "it was an answer"


async def test_a_member_does_not_ask_itself() -> None:
    async with Parties() as parties:
        own = parties.hosts[0]._member
        answer = await parties.of_lite.request(FORWARD_SERVERS, timeout_s=PATIENCE_S)
        assert answer.payload == own
        with pytest.raises(RequestTimeoutError):
            await parties.of_lite.request(FORWARD_SERVERS, own, timeout_s=0.2)
