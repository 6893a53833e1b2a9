"""The table of operations: each is declared once, and all else that is said of it follows.

    OperationSpec ─▶ OPERATIONS ─▶ codec · handlers of a state · what a PASSIVE cluster and a full
                                   log refuse · what travels together · what it takes in a log

CONTRIBUTING.md has how an operation is added.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from grid_member.engine.state.layout import (
    ACCESSES,
    BLOB,
    CLUSTER_STATE,
    CONTENT_TYPE,
    ENTRY,
    EVICTION,
    NUMBER,
    TEXT,
    ZERO,
    Field,
    Read,
    Write,
    reader_of,
    writer,
)
from grid_member.engine.state.operations import (
    ClusterStateChange,
    MapClear,
    MapExpire,
    MapExpireIdle,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
    MemberGone,
    Operation,
    Outcome,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
    SystemExpire,
    SystemPut,
    SystemRemove,
    TransientStateChange,
    WanAcknowledge,
    WanAgree,
    WanCompare,
    WanDropQueue,
    WanMemberState,
    WanMerge,
    WanPurge,
)
from grid_member.engine.state.wan_layout import (
    AGREEMENT,
    CHANGE,
    MERGE_POLICY,
    PLACES,
    PUBLISHER,
    PUBLISHER_STATE,
    TRUTH,
    UNLIMITED,
)
from grid_member.engine.wan.changes import CLUSTER_ID_BYTES

if TYPE_CHECKING:
    from grid_member.engine.state.machine import State

O = TypeVar("O")  # noqa: E741
Handler: TypeAlias = Callable[[Any, bytes, int, int], Outcome]
"""Applies an operation: operation, member, its place in the log, the log's time."""

OPERATION_BYTES: Final = 64
"""What an operation takes in a log beside its texts and its value, about."""
MAX_NOTE_BYTES: Final = 1024
"""Key and value of a system value that counts as a note: the outcome of a call, the progress of an
operation. A full log takes it into its reserve: an operator has to be able to make a backup."""
MAP_PUT: Final = 0x01
"""The tag of most operations; the codec reads and writes many of them in one step."""


class Scope(enum.Enum):
    """What an operation is about."""

    DATA = enum.auto()
    """Maps and queues. A member that holds no data leaves it out."""
    SYSTEM = enum.auto()
    """The cluster itself. Those of one tick travel in one record of their own."""
    MEMBER = enum.auto()
    """What members have sent, in each log."""


class WhenFull(enum.Enum):
    """What a full log does with an operation."""

    TAKEN = enum.auto()
    """It stores nothing. When it was refused with a record that does, it is sent again alone."""
    TAKEN_WITH_RECORD = enum.auto()
    """It stores nothing, and means nothing without the others of its record: it is not sent again.
    A change of the cluster state is: a full log must not keep a cluster from being made passive."""
    TAKEN_AS_NOTE = enum.auto()
    """It stores what the log takes if that is no more than a note, and refuses otherwise."""
    REFUSED = enum.auto()
    """It stores data."""


class OperationSpec(Generic[O]):
    """The declaration of one operation."""

    def __init__(
        self,
        operation: type[O],
        tag: int,
        fields: tuple[Field[Any], ...],
        handler: Callable[[State], Callable[[O, bytes, int, int], Outcome]],
        scope: Scope,
        when_full: WhenFull = WhenFull.TAKEN,
        *,
        refused_when_passive: bool = False,
        size_bytes: Callable[[O], int] | None = None,
        former: tuple[tuple[int, tuple[Field[Any], ...]], ...] = (),
    ) -> None:
        """Declare an operation.

        Args:
            operation: its class.
            tag: stands before its fields in the bytes, for ever: a new meaning gets a new tag.
            fields: their kinds, in order.
            handler: returns what applies it to a state.
            scope: what it is about.
            when_full: what a full log does with it.
            refused_when_passive: whether it changes data as clients ask for it. Expiry, touches
                and what becomes of taken items go on.
            size_bytes: returns the length of its texts and its value; None where that is little.
            former: tags that are read and not written any more, and the fields behind them.
        """
        self.operation = operation
        self.tag = tag
        self.fields = fields
        self.handler = handler
        self.scope = scope
        self.when_full = when_full
        self.refused_when_passive = refused_when_passive
        self.size_bytes = size_bytes
        self.former = former


class OperationTable:
    """Declared operations, and what follows from their declarations."""

    def __init__(self, *specs: OperationSpec[Any]) -> None:
        self.specs: Final = specs
        self.writers: Final[dict[type[Operation], tuple[bytes, Write]]] = {
            spec.operation: (bytes((spec.tag,)), writer(spec.fields)) for spec in specs
        }
        """The tag, and what writes the fields behind it."""
        self.readers: Final[dict[int, Read]] = {
            tag: reader_of(spec.operation, fields)
            for spec in specs
            for tag, fields in ((spec.tag, spec.fields), *spec.former)
        }
        self.of_data: Final = self._where(lambda spec: spec.scope is Scope.DATA)
        self.of_system: Final = self._where(lambda spec: spec.scope is Scope.SYSTEM)
        self.refused_when_passive: Final = self._where(lambda spec: spec.refused_when_passive)
        self.growing: Final = self._where(lambda spec: spec.when_full is WhenFull.REFUSED)
        """What stores data: a full log refuses it and takes the others."""
        self.notes: Final = self._where(lambda spec: spec.when_full is WhenFull.TAKEN_AS_NOTE)
        """What a full log takes if it is small."""
        self.sent_again: Final = self._where(lambda spec: spec.when_full is WhenFull.TAKEN)
        """What is sent again alone when a full log refused the record that it was in."""
        self._sizes: Final[dict[type[Operation], Callable[[Any], int]]] = {
            spec.operation: spec.size_bytes for spec in specs if spec.size_bytes is not None
        }

    def handlers(self, state: State) -> dict[type[Operation], Handler]:
        """Return what applies each operation to the state."""
        return {spec.operation: spec.handler(state) for spec in self.specs}

    def taken_bytes(self, operation: Operation) -> int:
        """Return what the operation takes in a log, about."""
        if type(operation) is MapPut:  # as its size says, for most
            name, key, value, content_type, _ = operation
            taken_bytes = OPERATION_BYTES + len(name) + len(key) + len(value)
            return taken_bytes if content_type is None else taken_bytes + len(content_type)
        size_bytes = self._sizes.get(type(operation))
        return OPERATION_BYTES if size_bytes is None else OPERATION_BYTES + size_bytes(operation)

    def is_note(self, operation: Operation) -> bool:
        """Tell whether the operation stores so little that a full log takes it."""
        return self.taken_bytes(operation) <= OPERATION_BYTES + MAX_NOTE_BYTES

    def grows(self, record: Record) -> bool:
        """Tell whether any operation of the record stores something, beside notes."""
        for operation in record.operations:
            kind = type(operation)
            if kind in self.growing or (kind in self.notes and not self.is_note(operation)):
                return True
        return False

    def _where(self, holds: Callable[[OperationSpec[Any]], bool]) -> frozenset[type[Operation]]:
        return frozenset(spec.operation for spec in self.specs if holds(spec))


def _entry_bytes(put: MapPut | MapPutBounded) -> int:
    return len(put.name) + len(put.key) + len(put.value) + len(put.content_type or "")


def _touch_bytes(touch: MapTouch) -> int:
    return sum(16 + len(access.key) for access in touch.accesses)


def _item_bytes(offer: QueueOffer) -> int:
    return len(offer.name) + len(offer.value) + len(offer.content_type or "")


def _value_bytes(put: SystemPut) -> int:
    return len(put.key) + len(put.value)


def _merge_bytes(merge: WanMerge) -> int:
    change = merge.change
    texts = len(change.name) + len(change.key) + len(change.content_type or "")
    return texts + len(change.value) + CLUSTER_ID_BYTES * len(change.passed)


def _agreement_bytes(agree: WanAgree) -> int:
    maps, publishers = agree.agreement.maps, agree.agreement.publishers
    return 64 * len(publishers) + sum(
        64 + len(name) + (0 if of is None else sum(map(len, (*of.include, *of.exclude))))
        for name, of in maps
    )


def _places_bytes(acknowledge: WanAcknowledge) -> int:
    return sum(32 + len(name) for name, _, _ in acknowledge.places)


OPERATIONS: Final = OperationTable(
    OperationSpec(
        MapPut, MAP_PUT, (ENTRY,), lambda state: state.maps.put,
        Scope.DATA, WhenFull.REFUSED, refused_when_passive=True, size_bytes=_entry_bytes,
    ),
    OperationSpec(
        MapRemove, 0x02, (TEXT, TEXT), lambda state: state.maps.remove,
        Scope.DATA, refused_when_passive=True,
    ),
    OperationSpec(
        MapClear, 0x03, (TEXT,), lambda state: state.maps.clear,
        Scope.DATA, refused_when_passive=True,
    ),
    OperationSpec(MapExpire, 0x04, (TEXT, TEXT), lambda state: state.maps.expire, Scope.DATA),
    OperationSpec(
        MapPutBounded, 0x05, (ENTRY, NUMBER, EVICTION), lambda state: state.maps.put_bounded,
        Scope.DATA, WhenFull.REFUSED, refused_when_passive=True, size_bytes=_entry_bytes,
    ),
    OperationSpec(
        MapTouch, 0x06, (TEXT, ACCESSES), lambda state: state.maps.touch,
        Scope.DATA, WhenFull.REFUSED, size_bytes=_touch_bytes,
    ),
    OperationSpec(
        MapExpireIdle, 0x07, (TEXT, TEXT, NUMBER), lambda state: state.maps.expire_idle,
        Scope.DATA,
    ),
    OperationSpec(
        QueueOffer, 0x10, (TEXT, BLOB, CONTENT_TYPE, NUMBER), lambda state: state.queues.offer,
        Scope.DATA, WhenFull.REFUSED, refused_when_passive=True, size_bytes=_item_bytes,
    ),
    OperationSpec(
        QueueTake, 0x11, (TEXT,), lambda state: state.queues.take,
        Scope.DATA, refused_when_passive=True,
    ),
    OperationSpec(
        QueueConfirm, 0x14, (TEXT, NUMBER, NUMBER), lambda state: state.queues.confirm,
        Scope.DATA, former=((0x12, (TEXT, NUMBER, ZERO)),),
    ),
    OperationSpec(
        QueueReturn, 0x15, (TEXT, NUMBER, NUMBER), lambda state: state.queues.give_back,
        Scope.DATA, former=((0x13, (TEXT, NUMBER, ZERO)),),
    ),
    OperationSpec(
        ClusterStateChange, 0x20, (CLUSTER_STATE,), lambda state: state.change_cluster_state,
        Scope.SYSTEM,
    ),
    OperationSpec(
        TransientStateChange, 0x21, (CLUSTER_STATE,), lambda state: state.change_for_now,
        Scope.SYSTEM,
    ),
    OperationSpec(
        SystemPut, 0x30, (TEXT, BLOB, NUMBER), lambda state: state.system.put,
        Scope.SYSTEM, WhenFull.TAKEN_AS_NOTE, size_bytes=_value_bytes,
    ),
    OperationSpec(
        SystemRemove, 0x31, (TEXT,), lambda state: state.system.remove,
        Scope.SYSTEM, WhenFull.TAKEN_WITH_RECORD,
    ),
    OperationSpec(SystemExpire, 0x32, (), lambda state: state.system.expire, Scope.SYSTEM),
    OperationSpec(MemberGone, 0x40, (BLOB, NUMBER), lambda state: state.member_gone, Scope.MEMBER),
    OperationSpec(
        WanAgree, 0x50, (AGREEMENT,), lambda state: state.wan.agree,
        Scope.DATA, size_bytes=_agreement_bytes,
    ),
    OperationSpec(
        WanMerge, 0x51, (CHANGE, MERGE_POLICY, EVICTION), lambda state: state.wan.merge,
        Scope.DATA, WhenFull.REFUSED, refused_when_passive=True, size_bytes=_merge_bytes,
    ),
    OperationSpec(
        WanAcknowledge, 0x52, (PUBLISHER, PLACES), lambda state: state.wan.acknowledge,
        Scope.DATA, size_bytes=_places_bytes,
    ),
    OperationSpec(
        WanMemberState, 0x53, (PUBLISHER, BLOB, PUBLISHER_STATE),
        lambda state: state.wan.set_member_state, Scope.DATA,
    ),
    OperationSpec(
        WanDropQueue, 0x54, (PUBLISHER, BLOB), lambda state: state.wan.drop_queue, Scope.DATA,
    ),
    OperationSpec(
        WanCompare, 0x55, (PUBLISHER, TEXT, BLOB, TRUTH), lambda state: state.wan.compare,
        Scope.DATA,
    ),
    OperationSpec(
        WanPurge, 0x57, (TEXT, NUMBER, NUMBER), lambda state: state.wan.purge, Scope.DATA,
        former=((0x56, (TEXT, NUMBER, UNLIMITED)),),
    ),
)  # fmt: skip
"""Every operation there is. `Operation` names the same classes, for mypy; a test compares them."""
