"""Images in the stream beside a log: what they consist of, and how one gets there.

    claim ▶ chunk ▶ … ▶ chunk ▶ end ▶ the log is purged up to the image ▶ older images are purged

An image's messages are on a subject of their own, named by its claim's sequence; the ends of all
images share one. Every message names the one that has to be before it, so that of two members
which write at once only the one that claimed last gets on, and the end names the end before it:
whoever did not know that one would replace an image by an older one.

The end names the time of the log's record that the image was taken at, too: a log in which that
record has another time is another log, however long it is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
import zlib
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.io.errors import newer
from grid_member.engine.nats.admin.streams import answered, asked
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.state import codec, snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.snapshot import Image

CHUNK_BYTES: Final = 256 * 1024
"""Of parts that travel together; a larger one travels alone."""
SLICE_PARTS: Final = 200
"""Parts that are encoded between two looks at anything else, half a millisecond of work."""
WORK_PAUSE: Final = 7
"""How many times as long as it worked an image pauses: an eighth of the loop's time is its."""
ACK_PAUSE: Final = 1
"""The same of the time that the servers took for a chunk: half of theirs."""
ACK_S: Final = 10.0
"""How long an acknowledgement is waited for; an election takes up to some nine."""
RECORD_S: Final = ACK_S
"""How long a record is waited for of which only the time is wanted: it comes whole, with some MiB
that may be on another machine, and a consumer of headers would have to be made for each."""
LOG_LOOKS: Final = 3
"""At a log that changes between two questions; others purge it once."""
FORMAT: Final = 1
NO_MESSAGE: Final = 10037
"""What servers say when a subject has no message."""
NO_STREAM: Final = 10059
_WRONG_LAST: Final = frozenset({10071, 10164})
"""What they say to a message that names another one than the last before it."""
_END_FIELDS: Final = ("log", "first", "chunks", "crc")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class OvertakenError(NatsError):
    """Another member did something meanwhile that makes this futile; to begin again helps."""


class OtherLogError(OvertakenError):
    """An image is of another log than the one that is there; who knows the state writes it anew."""


class End(NamedTuple):
    """What the last message of an image says."""

    log: int
    """The sequence of the log that the image was taken at."""
    first: int
    """Sequence of the claim; the chunks follow it, then the end."""
    chunks: int
    crc: int
    """CRC-32 of all chunks together."""
    log_ms: int | None = None
    """When the log's servers took that record, in milliseconds since the epoch; None: nobody knows,
    as of images of former versions."""

    @property
    def place(self) -> int:
        """The sequence of the end itself."""
        return self.first + self.chunks + 1

    def is_in(self, state: Mapping[str, Any]) -> bool:
        """Tell whether a log in that state has a record that can be compared with this image's."""
        return self.log_ms is not None and state["first_seq"] <= self.log <= state["last_seq"]


class Held(NamedTuple):
    """What a stream of images holds."""

    last: int
    """Sequence of its last message."""
    first: int
    end: End | None
    """Of the last image that is complete."""
    claims: tuple[int, ...]
    """Of all images that it has messages of."""
    quiet_s: float
    """How long ago the last message came."""


def images_of(stream: str) -> str:
    """Return the name of the stream of a log's images."""
    return f"{stream}-image"


def end_subject(stream: str) -> str:
    """Return where the ends of a log's images go."""
    return f"grid.image.{stream}.end"


def end_of(stream: str, answer: dict[str, Any]) -> End | None:
    """Return the end in an answer to `end_request`, None when there is none.

    Raises:
        NatsError: the answer is none.
        EngineError: it is of a later version.
    """
    if _is_missing(images_of(stream), answer):
        return None
    try:
        message = answer["message"]
        fields = json.loads(base64.b64decode(message["data"], validate=True))
        if int(fields["format"]) > FORMAT:
            raise newer(images_of(stream), fields["format"], FORMAT)
        log_ms = fields.get("log_ms")
        end = End(*(int(fields[name]) for name in _END_FIELDS))
        end = end._replace(log_ms=None if log_ms is None else int(log_ms))
        known = end.place == message["seq"]
    except (KeyError, TypeError, ValueError, binascii.Error):
        known = False
    if not known:
        raise NatsError(f"{images_of(stream)}: the end of its last image cannot be understood")
    return end


def end_request(stream: str) -> dict[str, str]:
    """Return the request of `STREAM.MSG.GET` for the last end."""
    return {"last_by_subj": end_subject(stream)}


def end_fields(end: End) -> bytes:
    """Return an end as a message."""
    known = {name: value for name, value in end._asdict().items() if value is not None}
    return json.dumps({"format": FORMAT, **known}).encode()


def record_request(end: End) -> dict[str, int]:
    """Return the request of `STREAM.MSG.GET` for the log's record that an image was taken at."""
    return {"seq": end.log}


def record_ms(stream: str, answer: dict[str, Any]) -> int | None:
    """Return the time of the record in an answer to `record_request`, None when it was purged.

    In milliseconds since the epoch, cut off as `feed.place` does.

    Raises:
        NatsError: the answer is none.
    """
    if _is_missing(stream, answer):
        return None
    try:
        # Digits behind microseconds are dropped; integers from there on.
        since = datetime.fromisoformat(answer["message"]["time"]) - _EPOCH
    except (KeyError, TypeError, ValueError):
        raise NatsError(f"{stream}: the time of a record cannot be understood") from None
    return since // timedelta(milliseconds=1)


def put_headers(last: int, before: int | None = None) -> bytes:
    """Return the headers of a message of an image.

    Args:
        last: the sequence of the stream's last message, which has to be that still.
        before: the same of the message's subject.
    """
    subject = b"" if before is None else b"Nats-Expected-Last-Subject-Sequence: %d\r\n" % before
    return b"NATS/1.0\r\nNats-Expected-Last-Sequence: %d\r\n%b\r\n" % (last, subject)


def put_outcome(stream: str, answer: dict[str, Any]) -> int:
    """Return the sequence of a message of an image that the servers have taken.

    Raises:
        NatsError: they have not.
    """
    error = answer.get("error")
    if error is not None:
        kind = OvertakenError if error.get("err_code") in _WRONG_LAST else NatsError
        raise kind(f"{images_of(stream)}: {error.get('description', 'refused')}")
    return int(answer.get("seq", 0))


async def look_at(client: NatsClient, stream: str) -> Held:
    """Return what the stream of a log's images holds.

    Raises:
        NatsError: nobody leads it now, or it changes.
    """
    name = images_of(stream)
    info = await answered(client, f"STREAM.INFO.{name}", {"subjects_filter": ">"})
    state = info["state"]
    end = end_of(stream, await asked(client, f"STREAM.MSG.GET.{name}", end_request(stream)))
    if end is not None and end.place > state["last_seq"]:
        raise OvertakenError(f"{name} changes")
    tails = [subject.rpartition(".")[2] for subject in state.get("subjects") or {}]
    return Held(
        last=state["last_seq"],
        first=state["first_seq"],
        end=end,
        claims=tuple(int(tail) for tail in tails if tail.isdigit()),
        quiet_s=_seconds(info["ts"]) - _seconds(state["last_ts"]),
    )


async def purge(client: NatsClient, stream: str, end: End) -> None:
    """Purge what an image that is complete replaces; again does nothing.

    Raises:
        OtherLogError: as `check_log`.
        OvertakenError: the same. A purge would make the log seem to fit: what came behind the image
            is lost with it (`mismatch`).
        NatsError: it may not be done.
    """
    await check_log(client, stream, end)
    await _purge(client, stream, end)


async def check_log(client: NatsClient, stream: str, end: End) -> None:
    """See that an image is of the log that is there.

    Raises:
        OtherLogError: the log has another record where the image was taken.
        OvertakenError: it ends before, or changes.
        NatsError: nobody leads it.
    """
    for _ in range(LOG_LOOKS):
        state = (await answered(client, f"STREAM.INFO.{stream}"))["state"]
        if state["last_seq"] < end.log:
            raise OvertakenError(f"{stream} is another one than the image of {end.log} is of")
        if not end.is_in(state):
            return
        call = f"STREAM.MSG.GET.{stream}"
        record = await asked(client, call, record_request(end), RECORD_S)
        found_ms = record_ms(stream, record)
        if found_ms == end.log_ms:
            return
        if found_ms is not None:
            raise OtherLogError(f"{stream} has another record {end.log} than its image")
        # It was purged meanwhile, or the whole log is another one.
    raise OvertakenError(f"{stream} changes")


class ImageWriter:
    """Writes one image."""

    def __init__(
        self, client: NatsClient, stream: str, held: Held, *, log_begins: bool = False
    ) -> None:
        """Write nothing yet.

        Args:
            client: connected to the member's own server.
            stream: the log's stream.
            held: what its images' stream holds: nothing else may come before this image.
            log_begins: whether the log is empty and is to begin behind the image.
        """
        self._client = client
        self._stream = stream
        self._held = held
        self._log_begins = log_begins
        self._last = held.last
        self._subject = f"grid.image.{stream}.{held.last + 1}"

    async def write(self, image_: Image, log_ms: int | None = None) -> None:
        """Write the image and purge what it replaces.

        Args:
            image_: what to write.
            log_ms: when the log's servers took the record that it was taken at, in milliseconds
                since the epoch, as far as that is known.

        Raises:
            NatsError: it is not complete, or not all that it replaces is purged.
        """
        first, chunks, crc = self._last + 1, 0, 0
        if not self._log_begins:  # else nobody is disturbed for what can never end
            await check_log(self._client, self._stream, End(image_.sequence, first, 0, 0, log_ms))
        await self._put(b"")
        await self._sweep()
        async for chunk in _chunks(image_):
            begun_s = time.perf_counter()
            await self._put(chunk)
            chunks += 1
            crc = zlib.crc32(chunk, crc)
            await asyncio.sleep(ACK_PAUSE * (time.perf_counter() - begun_s))
        end = End(image_.sequence, first, chunks, crc, log_ms)
        if not self._log_begins:
            await check_log(self._client, self._stream, end)  # what is replaced may be of it
        await self._put_end(end)
        await (_purge if self._log_begins else purge)(self._client, self._stream, end)

    async def _sweep(self) -> None:
        """Remove images that were never ended: nobody can end them behind this one's claim."""
        end = self._held.end
        for claim in self._held.claims:
            if end is None or claim != end.first:
                request = {"filter": f"grid.image.{self._stream}.{claim}"}
                await answered(self._client, f"STREAM.PURGE.{images_of(self._stream)}", request)

    async def _put_end(self, end: End) -> None:
        before = 0 if self._held.end is None else self._held.end.place
        await self._put(end_fields(end), subject=end_subject(self._stream), before=before)

    async def _put(self, payload: bytes, *, subject: str = "", before: int | None = None) -> None:
        answer = await self._client.request(
            (subject or self._subject).encode(),
            payload,
            timeout_s=ACK_S,
            headers=put_headers(self._last, before),
        )
        self._last += 1
        if put_outcome(self._stream, json.loads(answer.payload)) != self._last:
            raise OvertakenError(f"{images_of(self._stream)} is another one")


async def _purge(client: NatsClient, stream: str, end: End) -> None:
    await answered(client, f"STREAM.PURGE.{stream}", {"seq": end.log + 1})
    await answered(client, f"STREAM.PURGE.{images_of(stream)}", {"seq": end.first})


async def _chunks(image_: Image) -> AsyncIterator[bytes]:
    """Encode the image little by little, so that the loop hardly notices."""
    encoded = map(codec.encode_part, snapshot.parts(image_))
    pieces: list[bytes] = []
    size_bytes = 0
    while True:
        begun_s = time.perf_counter()
        parts = list(_slice(encoded))
        worked_s = time.perf_counter() - begun_s
        for part in parts:
            if pieces and size_bytes + len(part) > CHUNK_BYTES:
                yield codec.seal_parts(pieces)
                pieces, size_bytes = [], 0
            pieces.append(part)
            size_bytes += len(part)
        if not parts:
            break
        await asyncio.sleep(WORK_PAUSE * worked_s)
    if pieces:
        yield codec.seal_parts(pieces)


def _slice(encoded: Iterator[bytes]) -> Iterator[bytes]:
    size_bytes = 0
    for part in islice(encoded, SLICE_PARTS):
        yield part
        size_bytes += len(part)
        if size_bytes >= CHUNK_BYTES:
            return


def _is_missing(name: str, answer: dict[str, Any]) -> bool:
    """Tell whether an answer of `STREAM.MSG.GET` says that there is no such message."""
    error = answer.get("error")
    if error is not None and error.get("err_code") not in {NO_MESSAGE, NO_STREAM}:
        raise NatsError(f"{name}: {error.get('description', 'refused')}")
    return error is not None


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
