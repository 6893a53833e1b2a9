"""Reading a log on a thread, its last snapshot first: for a member's start, or its recovery."""

from __future__ import annotations

import uuid
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from grid_member.engine.api import EngineError
from grid_member.engine.jetstream.consumer import StreamMessage, place
from grid_member.engine.jetstream.mismatch import api, give_up_lost, info, look, time_in
from grid_member.engine.jetstream.snapshots import OvertakenError, snapshot_stream
from grid_member.engine.nats.admin.consumers import HEARTBEAT_S, consumer_request
from grid_member.engine.nats.client.blocking import BlockingClient
from grid_member.engine.nats.client.errors import LackingError, NatsError, RequestTimeoutError
from grid_member.engine.nats.client.wire import status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from grid_member.engine.jetstream.snapshots import SnapshotEnd
    from grid_member.engine.nats.client.wire import Message

GiveUp: TypeAlias = "Callable[[BlockingClient, str], None]"
"""Begins a log anew that is lost, as `give_up_lost`."""
READ_TIMEOUT_S: Final = 10.0
"""Seconds without a word after which reading is begun anew by whoever wants it."""
PATIENCES_S: Final = (0.3, 0.3, 0.6, 0.9, READ_TIMEOUT_S)
"""How long consumers are waited for, one after the other, until one sends something. The servers
choose who leads it: one that is gone, or has just come back and has to catch up, sends nothing."""
CREATE_S: Final = 1.0
"""How long it may take at most to make one: what is asked for while nobody leads the servers is
lost, and whoever leads soon after has to be asked again."""


class ReplaySource(NamedTuple):
    """The member's own server, for a thread."""

    address: Callable[[], tuple[str, int] | None]
    user: str
    password: str


class SnapshotChunk(NamedTuple):
    """A piece of the snapshot that comes before the messages."""

    log: int
    """The sequence of the log that the snapshot was taken at."""
    payload: bytes
    """Empty when the snapshot is: it tells where the log goes on all the same."""
    log_ms: int | None = None
    """When the log's servers took that record, milliseconds since the epoch; None: nobody knows."""


def _ignore(_: str) -> None:
    """Hear of what is of no matter."""


def replay_log(
    source: ReplaySource,
    stream: str,
    made: Callable[[str], None] = _ignore,
    give_up: GiveUp = give_up_lost,
) -> Generator[SnapshotChunk | StreamMessage, None, None]:
    """Yield the last snapshot of a log, then all messages behind it that it holds now, in order.

    `made` hears first when the stream was made, as its leader tells it. `give_up` is called for a
    log that does not go on where its snapshot ends.

    Raises:
        NatsError: the server cannot be reached, has no leader for the stream, or a purge overtook
            this: what was yielded is to be forgotten.
        EngineError: what is stored is damaged, or lost although it was on disks.
    """
    address = source.address()
    if address is None:
        raise NatsError("the member's nats-server does not run")
    with BlockingClient(address, source.user, source.password, READ_TIMEOUT_S) as client:
        found = look(client, stream)
        made(str(found.log["created"]))
        if not found.fits:  # a snapshot that is of no use is not read
            give_up(client, stream)
            raise OvertakenError(f"the log {stream} begins anew")
        after = 0
        try:
            if found.end is not None:
                yield from _read_snapshot(client, stream, found.end)
                after = found.end.log
            last = _last(client, stream, found.end)
            if last > after:
                yield from _read(client, stream, after, last)
        except LackingError:
            if look(client, stream).end != found.end:  # what it replaces is purged by each in turn
                raise OvertakenError(f"the log {stream} got another image") from None
            raise


def _last(client: BlockingClient, stream: str, end: SnapshotEnd | None) -> int:
    """Return the sequence of the log's last message; it has to go on where the snapshot ends."""
    state = info(client, stream)["state"]
    after = 0 if end is None else end.log
    if state["last_seq"] < after or state["first_seq"] > after + 1:
        raise OvertakenError(f"the log {stream} was purged while its image was read")
    if end is not None and time_in(client, stream, state, end) not in {None, end.log_ms}:
        raise OvertakenError(f"the log {stream} became another one while its image was read")
    return int(state["last_seq"])


def _read_snapshot(
    client: BlockingClient, stream: str, end: SnapshotEnd
) -> Iterator[SnapshotChunk]:
    """Yield the snapshot and check that it is whole."""
    if end.chunks == 0:
        yield SnapshotChunk(end.log, b"", end.log_ms)
        return
    crc = 0
    # The claim is before the chunks.
    for message in _read(client, snapshot_stream(stream), end.first, end.place - 1):
        crc = zlib.crc32(message.payload, crc)
        yield SnapshotChunk(end.log, message.payload, end.log_ms)
    if crc != end.crc:
        raise EngineError(f"{snapshot_stream(stream)}: the image of {end.log} is damaged")


def _read(client: BlockingClient, stream: str, after: int, last: int) -> Iterator[StreamMessage]:
    """Yield every message of a stream that comes behind `after`, up to `last`."""
    server, name, messages = _consume(client, stream, after)
    idle = 0
    for message in messages:
        if message.headers and status(message.headers) is not None:
            if message.reply:
                client.publish(message.reply, b"")
            else:
                idle += 1
                _check_idle(client, stream, after, idle)
            continue
        idle = 0
        sequence, _, timestamp_ms = place(message.reply)
        if sequence != after + 1:
            _check_purged(client, stream, after)
            raise LackingError(stream, server)
        after = sequence
        yield StreamMessage(sequence, timestamp_ms, message.payload)
        if sequence >= last:
            break
    _leave(client, stream, name)


def _consume(client: BlockingClient, stream: str, after: int) -> tuple[str, str, Iterator[Message]]:
    """Return the server of a consumer that sends something, the consumer, and what it sends."""
    server = ""

    def begin(subject: bytes) -> None:
        nonlocal server
        server = _begin(client, stream, name, after, patience_s, subject)

    for patience_s in PATIENCES_S:
        name = f"replay-{uuid.uuid4().hex}"
        try:
            messages = client.messages(f"_REPLAY.{name}".encode(), begin, patience_s)
            return server, name, chain([next(messages)], messages)
        except RequestTimeoutError as error:
            silent = error
            _leave(client, stream, name)
    raise silent


def _begin(
    client: BlockingClient,
    stream: str,
    name: str,
    after: int,
    patience_s: float,
    subject: bytes,
) -> str:
    """Make a consumer; return the name of the server whose copy it reads, as far as that tells."""
    call, request = consumer_request(stream, name, subject.decode(), after)
    made = api(client, call, request, min(patience_s, CREATE_S))
    return str((made.get("cluster") or {}).get("leader") or "")


def _leave(client: BlockingClient, stream: str, name: str) -> None:
    # Without that the server forgets it a little later.
    client.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{name}".encode())


def _check_idle(client: BlockingClient, stream: str, after: int, idle: int) -> None:
    """Find out why a server tells that it lives and sends nothing."""
    _check_purged(client, stream, after)
    if idle * HEARTBEAT_S > READ_TIMEOUT_S:
        raise NatsError(
            f"nothing comes of {stream} behind {after}: the copy that is read may lack the rest"
        )


def _check_purged(client: BlockingClient, stream: str, after: int) -> None:
    if info(client, stream)["state"]["first_seq"] > after + 1:
        raise OvertakenError(f"the stream {stream} was purged while it was read")
