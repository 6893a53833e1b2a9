"""Members that note how far they have read logs, and servers that say what the test wants."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, NamedTuple, cast

from grid_member.engine.bootstrap.identity import MemberIdentity
from grid_member.engine.integrity.watermarks import Watermarks
from grid_member.engine.nats.admin.peers import Peers
from grid_member.engine.nats.admin.streams import Stream
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.nats.client.wire import Message
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Record
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grid_member.engine.nats.client.client import NatsClient

LOG = Stream("shard-1", durable=True)
OTHER = Stream("shard-2", durable=True)
VOLATILE = Stream("volatile", durable=False)
BEGAN = "shard-1 began"
OWN = "m0-0123abcd-0123ab"
MEMBER, STRANGER = b"m" * 16, b"s" * 16
FIRST, SECOND = 1 << 20, 2 << 20
"""Incarnations of two starts."""
SELF = MemberIdentity(uuid.UUID(bytes=MEMBER), 1, OWN)
NEW = MemberIdentity(uuid.UUID(bytes=b"n" * 16), 1, "m1-0123abcd-0123ab")
FILE = "cluster/reached.json"
SERVER_FILES = "cluster/jetstream/jetstream"


class Servers:
    """Those that vote, what they tell of logs, and what members say to each other over them."""

    def __init__(self) -> None:
        self.ids: frozenset[str] | None = frozenset({"s0", "s1", "s2"})
        """None: nobody tells."""
        self.silent: frozenset[str] | None = self.ids
        self.wrong: Exception | None = None
        """What comes of a question who votes."""
        self.created = {one.name: f"{one.name} began" for one in (LOG, OTHER, VOLATILE)}
        self.takers: list[tuple[bytes, Callable[[Sequence[Message]], None]]] = []
        self.asked = 0

    async def peers(self, system: NatsClient) -> Peers:
        self.asked += 1
        if self.wrong is not None:
            raise self.wrong
        if self.ids is None:
            raise NatsError("nobody leads the servers now")
        return Peers(self.ids, self.silent or frozenset())

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> Taking:
        self.takers.append((subject, take))
        return Taking(self, subject, take)

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> None:
        for of, take in list(self.takers):
            if of == subject:
                take([Message(subject, reply, b"", payload, 1)])

    def unused_inbox(self) -> bytes:
        return b"_INBOX"


class Taking(NamedTuple):
    """A subscription."""

    servers: Servers
    subject: bytes
    take: Callable[[Sequence[Message]], None]

    def unsubscribe(self) -> None:
        self.servers.takers.remove((self.subject, self.take))


def note_streams(directory: Path) -> None:
    """Have the own server note on disk what streams there are."""
    notes = directory / SERVER_FILES / "SYS" / "_js_" / "_meta_"
    notes.mkdir(parents=True)
    (notes / "meta.inf").write_text("{}", encoding="utf-8")


def begin(one: Watermarks, servers: Servers, identity: MemberIdentity = SELF) -> None:
    one.begin(cast("NatsClient", servers), identity)


def log_of(*records: tuple[bytes, int, int]) -> State:
    """Return the state of a log with these records: member, incarnation, counter."""
    state = State()
    for sequence, (member, incarnation, counter) in enumerate(records, 1):
        state.apply(sequence, 1000 + sequence, Record(member, incarnation, counter, ()))
    return state


def add(state: State, member: bytes, incarnation: int, counter: int) -> None:
    """Apply the next record."""
    state.apply(state.sequence + 1, 2000, Record(member, incarnation, counter, ()))


def noted(directory: Path) -> dict[str, dict[str, object]]:
    content = json.loads((directory / FILE).read_bytes())
    assert content["member"] == str(SELF.uuid)
    logs: dict[str, dict[str, object]] = content["logs"]
    return logs


async def check(one: Watermarks, servers: Servers, state: State, stream: Stream = LOG) -> None:
    await one.check(stream, servers.created[stream.name], state, lambda: state)


async def noting(servers: Servers, directory: Path) -> tuple[Watermarks, State]:
    """Return a member that has read a new log, and noted its first record there; its state, too."""
    one, state = Watermarks(directory), log_of()
    begin(one, servers)
    await check(one, servers, state)
    add(state, MEMBER, FIRST, 1)
    await until(lambda: one._watermarks)
    return one, state


async def lived(servers: Servers, directory: Path, *states: State) -> None:
    """Live as a member that reads logs, and adds its first record to each of them."""
    one = Watermarks(directory)
    begin(one, servers)
    for stream, state in zip((LOG, OTHER), states, strict=False):
        await check(one, servers, state, stream)
    for state in states:
        add(state, MEMBER, FIRST, 1)
    await until(lambda: one._watermarks)
    await one.end()


async def found(servers: Servers, directory: Path, state: State, stream: Stream = LOG) -> None:
    """Read a log at the next start."""
    later = Watermarks(directory)
    begin(later, servers)
    try:
        await check(later, servers, state, stream)
    finally:
        await later.end()
