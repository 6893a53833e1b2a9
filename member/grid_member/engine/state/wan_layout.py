"""The kinds of fields of WAN replication: what is agreed on, changes, acknowledged places."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.engine.state.fields import (
    U8,
    U32,
    U64,
    NewerError,
    Reader,
    put_blob,
    put_entry,
    put_text,
)
from grid_member.engine.state.layout import Field
from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.engine.wan.changes import CLUSTER_ID_BYTES, Change, ChangeKind, Received

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.engine.state.operations import AcknowledgedPlace
    from grid_member.engine.state.snapshot import QueueMark, StateMark

T = TypeVar("T")

_CHANGE: Final = struct.Struct(">BQQ")
"""Kind, stamp and idle time."""
_BOUNDS: Final = struct.Struct(">QQQ")
"""Of an agreement: retention of tombstones in milliseconds, tombstones of a map at most, how far
ahead a clock may be in milliseconds."""
_POLICIES: Final = {
    1: MergePolicy.LATEST_UPDATE,
    2: MergePolicy.PASS_THROUGH,
    3: MergePolicy.PUT_IF_ABSENT,
}
_STATES: Final = {
    1: PublisherState.REPLICATING,
    2: PublisherState.PAUSED,
    3: PublisherState.STOPPED,
}
_WHEN_FULL: Final = {
    1: WhenQueueFull.DISCARD_AFTER_MUTATION,
    2: WhenQueueFull.THROW_EXCEPTION,
    3: WhenQueueFull.THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE,
}
_KINDS: Final = {kind.value: kind for kind in ChangeKind}
_RECEIVED: Final = {received.value: received for received in Received}
_POLICY_CODES: Final = {policy: U8.pack(code) for code, policy in _POLICIES.items()}
_STATE_CODES: Final = {state: U8.pack(code) for code, state in _STATES.items()}
_WHEN_FULL_CODES: Final = {choice: U8.pack(code) for code, choice in _WHEN_FULL.items()}


def _of_code(codes: Mapping[int, T], reader: Reader, what: str) -> T:
    code = reader.u8()
    found = codes.get(code)
    if found is None:
        raise NewerError(f"{what} {code}")
    return found


def _put_truth(truth: bool, pieces: list[bytes]) -> None:
    pieces.append(b"\x01" if truth else b"\x00")


def _read_truth(reader: Reader) -> bool:
    return bool(reader.u8())


def _put_unlimited(number: int, pieces: list[bytes]) -> None:
    _put_truth(True, pieces)


def _read_unlimited(reader: Reader) -> int:
    _read_truth(reader)
    return 0


def _put_received(received: Received, pieces: list[bytes]) -> None:
    pieces.append(U8.pack(received))


def _read_received(reader: Reader) -> Received:
    return _of_code(_RECEIVED, reader, "changes of other clusters")


def _put_publisher(name: PublisherName, pieces: list[bytes]) -> None:
    put_text(name.replication, pieces)
    put_text(name.publisher, pieces)


def _read_publisher(reader: Reader) -> PublisherName:
    return PublisherName(reader.text(), reader.text())


def _put_policy(policy: MergePolicy, pieces: list[bytes]) -> None:
    pieces.append(_POLICY_CODES[policy])


def _read_policy(reader: Reader) -> MergePolicy:
    return _of_code(_POLICIES, reader, "merge policy")


def _put_state(state: PublisherState, pieces: list[bytes]) -> None:
    pieces.append(_STATE_CODES[state])


def _read_state(reader: Reader) -> PublisherState:
    return _of_code(_STATES, reader, "publisher state")


def _put_passed(passed: tuple[bytes, ...], pieces: list[bytes]) -> None:
    pieces.append(U8.pack(len(passed)))
    pieces += passed


def _read_passed(reader: Reader) -> tuple[bytes, ...]:
    return tuple([reader.raw(CLUSTER_ID_BYTES) for _ in range(reader.u8())])


def _put_change(change: Change, pieces: list[bytes]) -> None:
    name, kind, key, stamp, value, content_type, deadline_ms, idle_ms, passed = change
    put_entry((name, key, value, content_type, deadline_ms), pieces)
    pieces.append(_CHANGE.pack(kind, stamp, idle_ms))
    _put_passed(passed, pieces)


def _read_change(reader: Reader) -> Change:
    name, key, value, content_type, deadline_ms = reader.entry()
    code, stamp, idle_ms = reader.header(_CHANGE)
    kind = _KINDS.get(code)
    if kind is None:
        raise NewerError(f"change {code}")
    passed = _read_passed(reader)
    return Change(name, kind, key, stamp, value, content_type, deadline_ms, idle_ms, passed)


def _put_texts(texts: tuple[str, ...], pieces: list[bytes]) -> None:
    pieces.append(U32.pack(len(texts)))
    for text in texts:
        put_text(text, pieces)


def _read_texts(reader: Reader) -> tuple[str, ...]:
    return tuple([reader.text() for _ in range(reader.u32())])


def _put_reference(reference: MapReference | None, pieces: list[bytes]) -> None:
    _put_truth(reference is not None, pieces)
    if reference is not None:
        put_text(reference.replication, pieces)
        _put_policy(reference.policy, pieces)
        _put_truth(reference.republishing, pieces)
        _put_texts(reference.include, pieces)
        _put_texts(reference.exclude, pieces)


def _read_reference(reader: Reader) -> MapReference | None:
    if not _read_truth(reader):
        return None
    return MapReference(
        reader.text(),
        _read_policy(reader),
        _read_truth(reader),
        _read_texts(reader),
        _read_texts(reader),
    )


def _put_agreed_publisher(publisher: AgreedPublisher, pieces: list[bytes]) -> None:
    _put_publisher(publisher.name, pieces)
    put_text(publisher.cluster_name, pieces)
    pieces.append(U64.pack(publisher.queue_capacity))
    pieces.append(_WHEN_FULL_CODES[publisher.when_full])
    _put_state(publisher.initial_state, pieces)


def _read_agreed_publisher(reader: Reader) -> AgreedPublisher:
    return AgreedPublisher(
        _read_publisher(reader),
        reader.text(),
        reader.u64(),
        _of_code(_WHEN_FULL, reader, "queue-full-behavior"),
        _read_state(reader),
    )


def _put_agreement(agreement: Agreement, pieces: list[bytes]) -> None:
    pieces.append(U64.pack(agreement.revision))
    put_blob(agreement.cluster_id, pieces)
    pieces.append(U32.pack(len(agreement.maps)))
    for name, reference in agreement.maps:
        put_text(name, pieces)
        _put_reference(reference, pieces)
    pieces.append(U32.pack(len(agreement.publishers)))
    for publisher in agreement.publishers:
        _put_agreed_publisher(publisher, pieces)
    pieces.append(
        _BOUNDS.pack(
            agreement.tombstone_retention_ms,
            agreement.max_tombstones,
            agreement.max_clock_ahead_ms,
        )
    )


def _read_agreement(reader: Reader) -> Agreement:
    revision, cluster_id = reader.u64(), reader.blob()
    maps = tuple([(reader.text(), _read_reference(reader)) for _ in range(reader.u32())])
    publishers = tuple([_read_agreed_publisher(reader) for _ in range(reader.u32())])
    return Agreement(revision, cluster_id, maps, publishers, *reader.header(_BOUNDS))


def _put_maybe_agreement(agreement: Agreement | None, pieces: list[bytes]) -> None:
    _put_truth(agreement is not None, pieces)
    if agreement is not None:
        _put_agreement(agreement, pieces)


def _read_maybe_agreement(reader: Reader) -> Agreement | None:
    return _read_agreement(reader) if _read_truth(reader) else None


def _put_places(places: tuple[AcknowledgedPlace, ...], pieces: list[bytes]) -> None:
    pieces.append(U32.pack(len(places)))
    for name, member, place in places:
        put_text(name, pieces)
        put_blob(member, pieces)
        pieces.append(U64.pack(place))


def _read_places(reader: Reader) -> tuple[AcknowledgedPlace, ...]:
    return tuple([(reader.text(), reader.blob(), reader.u64()) for _ in range(reader.u32())])


def _put_states(states: tuple[StateMark, ...], pieces: list[bytes]) -> None:
    pieces.append(U32.pack(len(states)))
    for publisher, member, state in states:
        _put_publisher(publisher, pieces)
        put_blob(member, pieces)
        _put_state(state, pieces)


def _read_states(reader: Reader) -> tuple[StateMark, ...]:
    count = reader.u32()
    return tuple(
        [(_read_publisher(reader), reader.blob(), _read_state(reader)) for _ in range(count)]
    )


def _put_queue_marks(marks: tuple[QueueMark, ...], pieces: list[bytes]) -> None:
    pieces.append(U32.pack(len(marks)))
    for publisher, member, place, gaps, job in marks:
        _put_publisher(publisher, pieces)
        put_blob(member, pieces)
        pieces.append(U64.pack(place))
        pieces.append(U8.pack(gaps))
        put_blob(job, pieces)


def _read_queue_marks(reader: Reader) -> tuple[QueueMark, ...]:
    count = reader.u32()
    return tuple([_read_queue_mark(reader) for _ in range(count)])


def _read_queue_mark(reader: Reader) -> QueueMark:
    publisher, member, place = _read_publisher(reader), reader.blob(), reader.u64()
    return publisher, member, place, reader.u8(), reader.blob()


RECEIVED: Final = Field(_put_received, _read_received)
TRUTH: Final = Field(_put_truth, _read_truth)
UNLIMITED: Final = Field(_put_unlimited, _read_unlimited)
"""A number that is 0, where a purge once said whether older changes may come: they always may."""
AGREEMENT: Final = Field(_put_agreement, _read_agreement)
MAYBE_AGREEMENT: Final = Field(_put_maybe_agreement, _read_maybe_agreement)
CHANGE: Final = Field(_put_change, _read_change)
MERGE_POLICY: Final = Field(_put_policy, _read_policy)
PUBLISHER: Final = Field(_put_publisher, _read_publisher)
PUBLISHER_STATE: Final = Field(_put_state, _read_state)
PASSED: Final = Field(_put_passed, _read_passed)
PLACES: Final = Field(_put_places, _read_places)
STATES: Final = Field(_put_states, _read_states)
QUEUE_MARKS: Final = Field(_put_queue_marks, _read_queue_marks)
