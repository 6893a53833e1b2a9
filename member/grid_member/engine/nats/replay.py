"""Reading a log on a thread, its last image first: for the start of a member, or its recovery."""

from __future__ import annotations

import json
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.nats.blocking import BlockingClient
from grid_member.engine.nats.errors import NatsError
from grid_member.engine.nats.feed import HEARTBEAT_S, Fed, consumer_config, place
from grid_member.engine.nats.images import OvertakenError, end_of, end_request, images_of
from grid_member.engine.nats.wire import status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grid_member.engine.nats.images import End

READ_TIMEOUT_S: Final = 10.0
"""Seconds without a word after which reading is begun anew by whoever wants it."""

REQUEST_TIMEOUT_S: Final = 2.0
"""A stream without a leader answers nothing."""


class Source(NamedTuple):
    """The member's own server, for a thread."""

    address: Callable[[], tuple[str, int] | None]
    user: str
    password: str


class Chunk(NamedTuple):
    """A piece of the image that comes before the messages."""

    log: int
    """The sequence of the log that the image was taken at."""
    payload: bytes


def replayed(source: Source, stream: str) -> Iterator[Chunk | Fed]:
    """Yield the last image of a log, then all messages behind it that the log holds now, in order.

    Raises:
        NatsError: the server cannot be reached, has no leader for the stream, or a purge overtook
            this: what was yielded is to be forgotten.
    """
    address = source.address()
    if address is None:
        raise NatsError("the member's nats-server does not run")
    with BlockingClient(address, source.user, source.password, READ_TIMEOUT_S) as client:
        name = f"$JS.API.STREAM.MSG.GET.{images_of(stream)}"
        end = end_of(stream, _answered(client, name, end_request(stream)))
        after = 0
        if end is not None:
            _held(client, stream, end.log)  # before an image is read that is of no use
            yield from _image(client, stream, end)
            after = end.log
        last = _held(client, stream, after)
        if last > after:
            yield from _read(client, stream, after, last)


def _held(client: BlockingClient, stream: str, after: int) -> int:
    """Return the sequence of the log's last message; what comes behind `after` has to be there."""
    state = _asked(client, f"$JS.API.STREAM.INFO.{stream}", {})["state"]
    first, last = state["first_seq"], state["last_seq"]
    if last < after or first > after + 1:
        raise OvertakenError(
            f"the log {stream} has {first} to {last}, its image was taken at {after}"
        )
    return int(last)


def _image(client: BlockingClient, stream: str, end: End) -> Iterator[Chunk]:
    """Yield the image and check that it is whole."""
    crc = 0
    # The claim is before the chunks.
    for message in _read(client, images_of(stream), end.first, end.place - 1):
        crc = zlib.crc32(message.payload, crc)
        yield Chunk(end.log, message.payload)
    if crc != end.crc:
        raise NatsError(f"{images_of(stream)}: the image of {end.log} is damaged")


def _read(client: BlockingClient, stream: str, after: int, last: int) -> Iterator[Fed]:
    """Yield every message of a stream that comes behind `after`, up to `last`."""
    name = f"replay-{uuid.uuid4().hex}"

    def begin(subject: bytes) -> None:
        config = consumer_config(name, subject.decode(), after)
        request = {"stream_name": stream, "action": "create", "config": config}
        _asked(client, f"$JS.API.CONSUMER.CREATE.{stream}.{name}", request)

    idle = 0
    for message in client.messages(f"_REPLAY.{name}".encode(), begin):
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
            raise OvertakenError(f"the stream {stream} was purged while it was read")
        after = sequence
        yield Fed(sequence, timestamp_ms, message.payload)
        if sequence >= last:
            break
    _asked(client, f"$JS.API.CONSUMER.DELETE.{stream}.{name}", {})


def _check_idle(client: BlockingClient, stream: str, after: int, idle: int) -> None:
    """Find out why a server tells that it lives and sends nothing."""
    state = _asked(client, f"$JS.API.STREAM.INFO.{stream}", {})["state"]
    if state["first_seq"] > after + 1:
        raise OvertakenError(f"the stream {stream} was purged while it was read")
    if idle * HEARTBEAT_S > READ_TIMEOUT_S:
        raise NatsError(f"the server sends nothing of the stream {stream} behind {after}")


def _answered(client: BlockingClient, subject: str, request: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(request).encode() if request else b""
    # A stream without a leader does not answer at all.
    answer = client.request(subject.encode(), body, timeout_s=REQUEST_TIMEOUT_S)
    result: dict[str, Any] = json.loads(answer.payload)
    return result


def _asked(client: BlockingClient, subject: str, request: dict[str, Any]) -> dict[str, Any]:
    answer = _answered(client, subject, request)
    if "error" in answer:
        raise NatsError(f"{subject}: {answer['error'].get('description', 'refused')}")
    return answer
