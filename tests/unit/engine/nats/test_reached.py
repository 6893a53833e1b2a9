"""How far a member has read its logs: what it finds of that in logs that it reads later."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.image import MemberMark
from grid_member.engine.nats import reached
from grid_member.engine.nats.errors import NatsError, ShortError
from grid_member.engine.nats.peers import Peers, peer_id
from grid_member.engine.nats.reached import Reached
from grid_member.engine.nats.streams import Stream
from grid_member.engine.nats.wire import Message
from grid_member.engine.operations import Record
from grid_member.engine.state import State
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grid_member.engine.nats.client import NatsClient

LOG = Stream("shard-1", durable=True)
OTHER = Stream("shard-2", durable=True)
VOLATILE = Stream("volatile", durable=False)
OWN = "m0-0123abcd-0123ab"
MEMBER, STRANGER = b"m" * 16, b"s" * 16
FIRST, SECOND = 1 << 20, 2 << 20
"""Incarnations of two starts."""


class Servers:
    """Those that vote, and what members say to each other over them."""

    def __init__(self) -> None:
        self.ids: frozenset[str] | None = frozenset({"s0", "s1", "s2"})
        """None: nobody tells."""
        self.takers: dict[bytes, Callable[[Sequence[Message]], None]] = {}

    async def peers(self, system: NatsClient) -> Peers:
        if self.ids is None:
            raise NatsError("nobody leads the servers now")
        return Peers(self.ids, frozenset())

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> Taking:
        self.takers[subject] = take
        return Taking(self, subject)

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> None:
        if subject in self.takers:
            self.takers[subject]([Message(subject, reply, b"", payload, 1)])

    def unused_inbox(self) -> bytes:
        return b"_INBOX"


class Taking(NamedTuple):
    """A subscription."""

    servers: Servers
    subject: bytes

    def unsubscribe(self) -> None:
        del self.servers.takers[self.subject]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(reached, "peers", servers.peers)
    monkeypatch.setattr(reached, "BEGUN_S", 0.01)
    monkeypatch.setattr(reached, "RETRY_S", 0.01)
    return servers


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster").mkdir()
    return tmp_path


def begin(one: Reached, servers: Servers) -> None:
    one.begin(cast("NatsClient", servers), OWN)


def log_of(*records: tuple[bytes, int, int]) -> State:
    """Return the state of a log with these records: member, incarnation, counter."""
    state = State()
    for sequence, (member, incarnation, counter) in enumerate(records, 1):
        state.apply(sequence, 1000 + sequence, Record(member, incarnation, counter, ()))
    return state


def noted(directory: Path) -> dict[str, dict[str, object]]:
    content = json.loads((directory / "cluster" / "reached.json").read_bytes())
    logs: dict[str, dict[str, object]] = content["logs"]
    return logs


async def lived(
    servers: Servers, directory: Path, *states: State, more: Callable[[], None] = lambda: None
) -> None:
    """Live as a member that reads logs, and adds its first record to each of them."""
    one = Reached(directory)
    begin(one, servers)
    for stream, state in zip((LOG, OTHER), states, strict=False):
        await one.check(stream, MEMBER, lambda state=state: state)  # type: ignore[misc]
    for state in states:
        state.apply(state.sequence + 1, 2000, Record(MEMBER, FIRST, 1, ()))
    await until(lambda: one._servers is not None)
    more()
    await one.end()


async def found(servers: Servers, directory: Path, state: State, stream: Stream = LOG) -> None:
    """Read a log at the next start."""
    later = Reached(directory)
    begin(later, servers)
    try:
        await later.check(stream, MEMBER, lambda: state)
    finally:
        await later.end()


async def test_a_log_that_was_emptied_is_short_however_long_it_grew(
    servers: Servers, directory: Path
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)), log_of())
    for state in (log_of(), log_of((STRANGER, SECOND, 1), (STRANGER, SECOND, 2), (STRANGER, 3, 3))):
        with pytest.raises(ShortError, match="shard-1 ends before record 2, which this member"):
            await found(servers, directory, state)
    await found(servers, directory, log_of((MEMBER, FIRST, 1)), OTHER)
    await found(servers, directory, log_of((STRANGER, FIRST, 1), (MEMBER, FIRST, 1)))


async def test_a_log_that_lost_its_end_is_short(servers: Servers, directory: Path) -> None:
    state = log_of()

    def more() -> None:
        state.apply(2, 2001, Record(MEMBER, FIRST, 2, ()))

    await lived(servers, directory, state, more=more)
    assert noted(directory)["shard-1"] == {
        "incarnation": FIRST,
        "counter": 2,
        "sequence": 2,
        "servers": ["s0", "s1", "s2"],
    }
    with pytest.raises(ShortError):
        await found(servers, directory, log_of((MEMBER, FIRST, 1)))
    # The others ended that life, after its last record.
    ended = log_of()
    ended.members[MEMBER] = MemberMark(FIRST + 1, 0, 0)
    await found(servers, directory, ended)


async def test_what_servers_that_were_taken_off_had_is_not_missed(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(servers, directory, log_of())
    servers.ids = frozenset({"s0", "s3", "s4"})
    short = log_of()
    later = Reached(directory)
    begin(later, servers)
    await later.check(LOG, MEMBER, lambda: short)
    assert "servers that had it were taken off" in caplog.text
    short.apply(1, 3000, Record(MEMBER, SECOND - 1, 1, ()))
    await until(lambda: later._servers is not None)
    await later.end()
    assert noted(directory)["shard-1"]["servers"] == ["s0", "s3", "s4"]
    with pytest.raises(ShortError):
        await found(servers, directory, log_of())


async def test_nothing_is_taken_for_whole_while_nobody_tells_who_votes(
    servers: Servers, directory: Path
) -> None:
    await lived(servers, directory, log_of())
    servers.ids = None
    with pytest.raises(NatsError, match="nobody leads the servers"):
        await found(servers, directory, log_of())


async def test_it_is_noted_as_soon_as_each_log_has_begun_and_somebody_tells_who_votes(
    servers: Servers, directory: Path
) -> None:
    state, other = log_of((MEMBER, FIRST, 7)), log_of()
    one = Reached(directory)
    begin(one, servers)
    await one.check(LOG, MEMBER, lambda: state)
    await one.check(OTHER, MEMBER, lambda: other)
    servers.ids = None
    state.apply(2, 2000, Record(MEMBER, SECOND, 1, ()))
    begun = [one._begun]
    other.apply(1, 2000, Record(MEMBER, SECOND, 1, ()))
    assert [*begun, one._begun] == [False, True]
    servers.ids = frozenset({"s0"})
    file = directory / "cluster" / "reached.json"
    await until(file.exists)
    assert noted(directory).keys() == {"shard-1", "shard-2"}
    await one.end()


async def test_a_log_that_lost_records_in_place_is_short_at_the_next_start(
    servers: Servers, directory: Path
) -> None:
    states = [log_of((STRANGER, FIRST, 1))]
    one = Reached(directory)
    begin(one, servers)
    await one.check(LOG, MEMBER, lambda: states[-1])
    states[0].apply(2, 2000, Record(MEMBER, FIRST, 1, ()))
    await until(lambda: one._marks)
    states.append(log_of())
    await one.end()
    assert noted(directory)["shard-1"]["sequence"] == 2


async def test_a_member_that_read_nothing_yet_asks_those_that_did(
    servers: Servers, directory: Path, tmp_path: Path
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)))
    there = Reached(directory)
    begin(there, servers)
    await until(lambda: there._marks)
    new = tmp_path / "new"
    (new / "cluster").mkdir(parents=True)
    with pytest.raises(ShortError, match="shard-1 ends before record 2"):
        await joins(new, servers, log_of())
    await joins(new, servers, log_of((STRANGER, FIRST, 1)))  # which is being written
    servers.ids = frozenset({"s0", "s1", "s3"})
    await joins(new, servers, log_of())
    await there.end()


async def test_who_is_answered_by_all_that_vote_or_by_nobody_goes_on(
    servers: Servers, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.ids = frozenset({peer_id(OWN)})
    monkeypatch.setattr(reached, "ANSWER_S", 3600.0)
    alone = Reached(directory)
    begin(alone, servers)
    await until(lambda: alone._marks is not None)
    await alone.check(LOG, MEMBER, log_of)
    await alone.end()
    servers.ids = frozenset({"s1"})
    monkeypatch.setattr(reached, "ANSWER_S", 0.01)
    servers.publish(reached.SUBJECT, b"", b"nobody")
    await alone.check(LOG, MEMBER, log_of)


async def joins(directory: Path, servers: Servers, state: State) -> None:
    """Read a log as somebody new."""
    one = Reached(directory)
    one._system = cast("NatsClient", servers)
    await one.check(LOG, b"n" * 16, lambda: state)


async def test_logs_in_memory_and_members_without_a_disk_note_nothing(
    servers: Servers, directory: Path
) -> None:
    state = log_of()
    one = Reached(directory)
    begin(one, servers)
    await one.check(VOLATILE, MEMBER, lambda: state)
    assert not one._begun
    await one.end()
    assert not (directory / "cluster" / "reached.json").exists()
    nowhere = Reached(None)
    begin(nowhere, servers)
    await nowhere.check(LOG, MEMBER, lambda: state)
    assert nowhere._noting is None
    await nowhere.end()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "foreign or damaged"),
        ('{"format": 1, "logs": {"shard-1": {"counter": 1}}}', "foreign or damaged"),
        ('{"format": 2}', "has format 2, this version reads 1"),
    ],
)
async def test_what_was_not_noted_by_this_version_ends_the_start(
    servers: Servers, directory: Path, content: str, said: str
) -> None:
    (directory / "cluster" / "reached.json").write_text(content, encoding="utf-8")
    with pytest.raises(EngineError, match=said):
        await found(servers, directory, log_of())
