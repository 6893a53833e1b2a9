"""A log and its snapshot that do not fit: one of the two was lost by all servers that held it.

    log 1 … 40, snapshot of 1000       the log was lost
    log 1001 … 1040, no snapshot       the snapshot was lost
    log 1001 … 1040, snapshot of 500   the last snapshot was lost, and one before is there still
    log 1 … 1040, snapshot of 1000     one was lost, if the snapshot knows another record 1000

The first three are seen for a moment while a log is replaced. Here it is made sure that they are
here to stay. What was in memory only is given up then: an empty snapshot takes the place of both. A
log on disks that ends before its snapshot is waited for: somebody may lead yet who has it.
Snapshots are written in turn, so of members that find out at once a single one does it, and all go
on from there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.api import EngineError
from grid_member.engine.integrity.damage import RESTORE
from grid_member.engine.jetstream.publisher import SILENT_S, quorum_silence_s
from grid_member.engine.jetstream.snapshots import (
    OvertakenError,
    SnapshotEnd,
    end_fields,
    end_of,
    end_subject,
    put_headers,
    put_outcome,
    record_ms,
    snapshot_stream,
)
from grid_member.engine.nats.client.errors import NatsError, RequestTimeoutError, ShortError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.nats.client.blocking import BlockingClient

LOOKS: Final = 20
"""That have to agree."""
LOOK_S: Final = 0.5
REQUEST_TIMEOUT_S: Final = 2.0
"""A stream without a leader answers nothing."""
TRIES_S: Final = (0.1, 0.2, 0.4, 0.8)
"""How long a question is waited for before it is asked again: one that comes before there is a
leader is lost."""
_log: Final = logging.getLogger("grid.engine.nats")


class LogComparison(NamedTuple):
    """What the leaders of a log and of its snapshots say."""

    log: Mapping[str, Any]
    snapshots: Mapping[str, Any]
    end: SnapshotEnd | None
    taken_ms: int | None = None
    """When the servers took the record that the snapshot was taken at, in milliseconds since the
    epoch; None: it is purged, or the snapshot does not tell what to compare it with."""

    @property
    def last(self) -> int:
        """The sequence of the log's last message."""
        return int(self.log["state"]["last_seq"])

    @property
    def fits(self) -> bool:
        """Whether the log goes on where the snapshot ends."""
        return not (self.is_short or self.has_gap or self.is_foreign)

    @property
    def is_short(self) -> bool:
        """Whether the log ends before its snapshot was taken."""
        return self.last < self._after

    @property
    def has_gap(self) -> bool:
        """Whether the log lacks records between the snapshot and its begin."""
        return int(self.log["state"]["first_seq"]) > self._after + 1

    @property
    def is_foreign(self) -> bool:
        """Whether the snapshot is of another log, though the lengths fit."""
        return self.end is not None and self.taken_ms not in {None, self.end.log_ms}

    @property
    def _after(self) -> int:
        return 0 if self.end is None else self.end.log

    def describe(self) -> str:
        """Tell what does not fit."""
        state = self.log["state"]
        snapshot = (
            "it has no image" if self.end is None else f"its image was taken at {self.end.log}"
        )
        if self.is_foreign:
            snapshot += " of another log, which had another record there"
        return f"the log has {state['first_seq']} to {state['last_seq']}, {snapshot}"


def look(client: BlockingClient, stream: str) -> LogComparison:
    """Return what there is now.

    Raises:
        NatsError: nobody leads one of the streams.
    """
    call = f"STREAM.MSG.GET.{snapshot_stream(stream)}"
    end = end_of(stream, _ask(client, call, {"last_by_subj": end_subject(stream)}))
    snapshots = info(client, snapshot_stream(stream))
    log = info(client, stream)
    return LogComparison(log, snapshots, end, time_in(client, stream, log["state"], end))


def time_in(
    client: BlockingClient, stream: str, state: Mapping[str, Any], end: SnapshotEnd | None
) -> int | None:
    """Return when the servers took the record that a snapshot was taken at (`taken_ms`).

    Raises:
        NatsError: nobody leads the log.
    """
    if end is None or not end.is_in(state):
        return None
    return record_ms(stream, _ask(client, f"STREAM.MSG.GET.{stream}", {"seq": end.log}))


def info(client: BlockingClient, stream: str) -> dict[str, Any]:
    """Return what the leader of a stream tells of it.

    Raises:
        NatsError: nobody leads it.
    """
    call = f"STREAM.INFO.{stream}"
    return _checked_answer(call, _ask(client, call, {}))


def give_up_lost(
    client: BlockingClient, stream: str, pause: Callable[[float], None] = time.sleep
) -> None:
    """Begin a log anew that was lost together with its snapshot, or one of them; else do nothing.

    Raises:
        ShortError: it ends before its snapshot, and was on disks.
        OvertakenError: it may heal yet, or just did: read anew.
        NatsError: the same, nobody leads one of the streams.
        EngineError: it is lost although it was on disks.
    """
    found = look(client, stream)
    durable = found.log["config"]["storage"] == "file"
    if durable and found.end is not None and found.is_short:
        raise ShortError(stream, found.end.log, in_snapshot=True)
    for _ in range(LOOKS):
        _check_final(found, stream)
        pause(LOOK_S)
        former, found = found, look(client, stream)
        if found.end != former.end or found.last < former.last:
            raise OvertakenError(f"{stream}: {found.describe()}")
    _check_final(found, stream)
    if durable:
        raise EngineError(
            f"{stream} is damaged on the disks of all members: {found.describe()}; {RESTORE}"
        )
    _replace(client, stream, found)


def _check_final(found: LogComparison, stream: str) -> None:
    """Raise unless leaders with a quorum agree that something is lost and nobody has it."""
    silent = any(
        quorum_silence_s(info.get("cluster") or {}) > SILENT_S
        for info in (found.log, found.snapshots)
    )
    # Members that are fed have the log's state still, and write the snapshot that there is none of.
    without_snapshot = found.has_gap or found.is_foreign
    held = without_snapshot and found.log["state"].get("consumer_count", 0)
    if found.fits or silent or held:
        raise OvertakenError(f"{stream}: {found.describe()}")


def _replace(client: BlockingClient, stream: str, found: LogComparison) -> None:
    last, former = int(found.snapshots["state"]["last_seq"]), found.end
    end = SnapshotEnd(found.last, last + 1, 0, 0)
    claim = f"grid.image.{stream}.{end.first}".encode()
    _put(client, stream, claim, b"", put_headers(last))
    before = 0 if former is None else former.place
    _put(
        client, stream, end_subject(stream).encode(), end_fields(end), put_headers(last + 1, before)
    )
    # Only now: of members that find out at once a single one gets so far.
    _log.error(
        "%s was in memory only and is lost, its servers ended at the same time: it begins empty "
        "(%s)",
        *(stream, found.describe()),
    )
    api(client, f"STREAM.PURGE.{stream}", {"seq": end.log + 1})
    api(client, f"STREAM.PURGE.{snapshot_stream(stream)}", {"seq": end.first})


def _put(
    client: BlockingClient, stream: str, subject: bytes, payload: bytes, headers: bytes
) -> None:
    answer = client.request(subject, payload, timeout_s=REQUEST_TIMEOUT_S, headers=headers)
    put_outcome(stream, json.loads(answer.payload))


def _ask(client: BlockingClient, call: str, request: dict[str, Any]) -> dict[str, Any]:
    """Ask what changes nothing, so that it can be asked again."""
    for try_s in TRIES_S:
        with contextlib.suppress(RequestTimeoutError):
            return _answer(client, call, request, try_s)
    return _answer(client, call, request)


def _answer(
    client: BlockingClient,
    call: str,
    request: dict[str, Any],
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> dict[str, Any]:
    body = json.dumps(request).encode() if request else b""
    answer = client.request(f"$JS.API.{call}".encode(), body, timeout_s=timeout_s)
    result: dict[str, Any] = json.loads(answer.payload)
    return result


def api(
    client: BlockingClient,
    call: str,
    request: dict[str, Any],
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> dict[str, Any]:
    """Return the answer of a call of the servers' own interface.

    Raises:
        NatsError: it is an error, or there is none.
    """
    return _checked_answer(call, _answer(client, call, request, timeout_s))


def _checked_answer(call: str, answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise NatsError(f"{call}: {answer['error'].get('description', 'refused')}")
    return answer
