"""Snapshots in the stream beside a log: what they consist of, and how one gets there.

    claim ▶ chunk ▶ … ▶ chunk ▶ end ▶ the log is purged up to the snapshot ▶ older snapshots are
    purged

A snapshot's messages are on a subject of their own, named by its claim's sequence; the ends of all
snapshots share one. Every message names the one that has to be before it, so that of two members
which write at once only the one that claimed last gets on, and the end names the end before it:
whoever did not know that one would replace a snapshot by an older one.

The end names the time of the log's record that the snapshot was taken at, too: a log in which that
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

from grid_member.engine.io.store_errors import newer_error
from grid_member.engine.nats.admin.streams import ask, ask_successfully
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.state import codec, snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.snapshot import Snapshot

CHUNK_BYTES: Final = 256 * 1024
"""Of parts that travel together; a larger one travels alone."""
SLICE_PARTS: Final = 200
"""Parts that are encoded between two looks at anything else, half a millisecond of work."""
WORK_PAUSE: Final = 7
"""How many times as long as it worked a snapshot pauses: an eighth of the loop's time is its."""
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
    """A snapshot is of another log than is there; a member that knows the state writes it anew."""


class SnapshotEnd(NamedTuple):
    """What the last message of a snapshot says."""

    log: int
    """The sequence of the log that the snapshot was taken at."""
    first: int
    """Sequence of the claim; the chunks follow it, then the end."""
    chunks: int
    crc: int
    """CRC-32 of all chunks together."""
    log_ms: int | None = None
    """When the log's servers took that record, in milliseconds since the epoch; None: nobody knows,
    as of snapshots of former versions."""

    @property
    def place(self) -> int:
        """The sequence of the end itself."""
        return self.first + self.chunks + 1

    def is_in(self, state: Mapping[str, Any]) -> bool:
        """Tell whether a log in that state has a record to compare with this snapshot's."""
        return self.log_ms is not None and state["first_seq"] <= self.log <= state["last_seq"]


class StoredSnapshots(NamedTuple):
    """What a stream of snapshots holds."""

    last: int
    """Sequence of its last message."""
    first: int
    end: SnapshotEnd | None
    """Of the last snapshot that is complete."""
    claims: tuple[int, ...]
    """Of all snapshots that it has messages of."""
    quiet_s: float
    """How long ago the last message came."""


def snapshot_stream(stream: str) -> str:
    """Return the name of the stream of a log's snapshots."""
    return f"{stream}-image"


def end_subject(stream: str) -> str:
    """Return where the ends of a log's snapshots go."""
    return f"grid.image.{stream}.end"


def end_of(stream: str, answer: dict[str, Any]) -> SnapshotEnd | None:
    """Return the end in an answer of `STREAM.MSG.GET`, None when there is none.

    Raises:
        NatsError: the answer is none.
        EngineError: it is of a later version.
    """
    if _is_missing(snapshot_stream(stream), answer):
        return None
    try:
        message = answer["message"]
        fields = json.loads(base64.b64decode(message["data"], validate=True))
        if int(fields["format"]) > FORMAT:
            raise newer_error(snapshot_stream(stream), fields["format"], FORMAT)
        log_ms = fields.get("log_ms")
        end = SnapshotEnd(*(int(fields[name]) for name in _END_FIELDS))
        end = end._replace(log_ms=None if log_ms is None else int(log_ms))
        known = end.place == message["seq"]
    except (KeyError, TypeError, ValueError, binascii.Error):
        known = False
    if not known:
        raise NatsError(
            f"{snapshot_stream(stream)}: the end of its last image cannot be understood"
        )
    return end


def end_fields(end: SnapshotEnd) -> bytes:
    """Return an end as a message."""
    known = {name: value for name, value in end._asdict().items() if value is not None}
    return json.dumps({"format": FORMAT, **known}).encode()


def record_ms(stream: str, answer: dict[str, Any]) -> int | None:
    """Return the time of the record in an answer of `STREAM.MSG.GET`, None when it was purged.

    In milliseconds since the epoch, cut off as `consumer.place` does.

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
    """Return the headers of a message that comes behind the stream's message `last`.

    `before`, if given, is the last message of its own subject.
    """
    subject = b"" if before is None else b"Nats-Expected-Last-Subject-Sequence: %d\r\n" % before
    return b"NATS/1.0\r\nNats-Expected-Last-Sequence: %d\r\n%b\r\n" % (last, subject)


def put_outcome(stream: str, answer: dict[str, Any]) -> int:
    """Return the sequence of a message of a snapshot that the servers have taken.

    Raises:
        NatsError: they have not.
    """
    error = answer.get("error")
    if error is not None:
        kind = OvertakenError if error.get("err_code") in _WRONG_LAST else NatsError
        raise kind(f"{snapshot_stream(stream)}: {error.get('description', 'refused')}")
    return int(answer.get("seq", 0))


async def look_at(client: NatsClient, stream: str) -> StoredSnapshots:
    """Return what the stream of a log's snapshots holds.

    Raises:
        NatsError: nobody leads it now, or it changes.
    """
    name = snapshot_stream(stream)
    info = await ask_successfully(client, f"STREAM.INFO.{name}", {"subjects_filter": ">"})
    state = info["state"]
    end = end_of(
        stream, await ask(client, f"STREAM.MSG.GET.{name}", {"last_by_subj": end_subject(stream)})
    )
    if end is not None and end.place > state["last_seq"]:
        raise OvertakenError(f"{name} changes")
    tails = [subject.rpartition(".")[2] for subject in state.get("subjects") or {}]
    return StoredSnapshots(
        last=state["last_seq"],
        first=state["first_seq"],
        end=end,
        claims=tuple(int(tail) for tail in tails if tail.isdigit()),
        quiet_s=_seconds(info["ts"]) - _seconds(state["last_ts"]),
    )


async def purge(client: NatsClient, stream: str, end: SnapshotEnd) -> None:
    """Purge what a snapshot that is complete replaces; again does nothing.

    Raises:
        OtherLogError: as `check_log`.
        OvertakenError: the same. A purge would make the log seem to fit: what came behind the
            snapshot is lost with it (`mismatch`).
        NatsError: it may not be done.
    """
    await check_log(client, stream, end)
    await _purge(client, stream, end)


async def check_log(client: NatsClient, stream: str, end: SnapshotEnd) -> None:
    """See that a snapshot is of the log that is there.

    Raises:
        OtherLogError: the log has another record where the snapshot was taken.
        OvertakenError: it ends before, or changes.
        NatsError: nobody leads it.
    """
    for _ in range(LOG_LOOKS):
        state = (await ask_successfully(client, f"STREAM.INFO.{stream}"))["state"]
        if state["last_seq"] < end.log:
            raise OvertakenError(f"{stream} is another one than the image of {end.log} is of")
        if not end.is_in(state):
            return
        call = f"STREAM.MSG.GET.{stream}"
        record = await ask(client, call, {"seq": end.log}, RECORD_S)
        found_ms = record_ms(stream, record)
        if found_ms == end.log_ms:
            return
        if found_ms is not None:
            raise OtherLogError(f"{stream} has another record {end.log} than its image")
        # It was purged meanwhile, or the whole log is another one.
    raise OvertakenError(f"{stream} changes")


class SnapshotWriter:
    """Writes one snapshot."""

    def __init__(
        self, client: NatsClient, stream: str, held: StoredSnapshots, *, log_begins: bool = False
    ) -> None:
        """Write nothing yet.

        Nothing else may come before this snapshot than what its stream held. `log_begins` tells
        whether the log is empty and is to begin behind the snapshot.
        """
        self._client = client
        self._stream = stream
        self._snapshots = held
        self._log_begins = log_begins
        self._last = held.last
        self._subject = f"grid.image.{stream}.{held.last + 1}"

    async def write(self, content: Snapshot, log_ms: int | None = None) -> None:
        """Write the snapshot and purge what it replaces; log_ms is that of its `SnapshotEnd`.

        Raises:
            NatsError: it is not complete, or not all that it replaces is purged.
        """
        first, chunks, crc = self._last + 1, 0, 0
        if not self._log_begins:  # else nobody is disturbed for what can never end
            await check_log(
                self._client, self._stream, SnapshotEnd(content.sequence, first, 0, 0, log_ms)
            )
        await self._put(b"")
        await self._sweep()
        async for chunk in _chunks(content):
            begun_s = time.perf_counter()
            await self._put(chunk)
            chunks += 1
            crc = zlib.crc32(chunk, crc)
            await asyncio.sleep(ACK_PAUSE * (time.perf_counter() - begun_s))
        end = SnapshotEnd(content.sequence, first, chunks, crc, log_ms)
        if not self._log_begins:
            await check_log(self._client, self._stream, end)  # what is replaced may be of it
        await self._put_end(end)
        await (_purge if self._log_begins else purge)(self._client, self._stream, end)

    async def _sweep(self) -> None:
        """Remove snapshots that were never ended: nobody can end them behind this one's claim."""
        end = self._snapshots.end
        for claim in self._snapshots.claims:
            if end is None or claim != end.first:
                request = {"filter": f"grid.image.{self._stream}.{claim}"}
                await ask_successfully(
                    self._client, f"STREAM.PURGE.{snapshot_stream(self._stream)}", request
                )

    async def _put_end(self, end: SnapshotEnd) -> None:
        before = 0 if self._snapshots.end is None else self._snapshots.end.place
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
            raise OvertakenError(f"{snapshot_stream(self._stream)} is another one")


async def _purge(client: NatsClient, stream: str, end: SnapshotEnd) -> None:
    await ask_successfully(client, f"STREAM.PURGE.{stream}", {"seq": end.log + 1})
    await ask_successfully(client, f"STREAM.PURGE.{snapshot_stream(stream)}", {"seq": end.first})


async def _chunks(content: Snapshot) -> AsyncIterator[bytes]:
    """Encode the snapshot little by little, so that the loop hardly notices."""
    encoded = map(codec.encode_part, snapshot.parts(content))
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
