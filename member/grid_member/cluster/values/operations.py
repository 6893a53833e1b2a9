"""The long operations of the cluster: backups, restores, imports, migrations, recoveries, syncs.

Each goes from STARTED, perhaps over IN_PROGRESS, to FINISHED or FAILED, and stays there. What a
start did to the store is known when it has ended, and told as soon as there is a store to tell it.
"""

from __future__ import annotations

import enum
import json
import uuid
from typing import TYPE_CHECKING, Final, TypedDict, cast

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from grid_member.engine.log.log import Clock
    from grid_member.engine.state.system import SystemStore

MAX_OPERATIONS: Final = 100
"""Of them all; beyond it the oldest that have ended are forgotten."""
COMPLETE_PERCENT: Final = 100
OPERATION: Final = "operation/"
"""Begins the keys of what is stored of an operation."""


class OperationStage(enum.Enum):
    """How far an operation is."""

    STARTED = "STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


_ENDED: Final = frozenset({OperationStage.FINISHED.value, OperationStage.FAILED.value})


class OperationDocument(TypedDict):
    """One element of the operations document."""

    id: str
    kind: str
    stage: str
    progress: int
    """Percent; 100 when FINISHED."""
    error: str | None
    started: int
    """Milliseconds since the epoch."""
    finished: int | None


class _Record(TypedDict):
    member: str
    operation: OperationDocument


class Operations:
    """The operations of all members as stored, and the newest of what this one does."""

    def __init__(
        self,
        store: SystemStore,
        member_uuid: Callable[[], str],
        clock_ms: Clock,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._store = store
        self._member_uuid = member_uuid
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._own: dict[str, OperationDocument] = {}
        self._early: list[OperationDocument] = []
        self.others: Callable[[], list[OperationDocument]] = list
        """Returns operations of which something else keeps the record."""

    def documents(self) -> list[OperationDocument]:
        """Return all operations, the oldest first."""
        return _ordered([*self._documents(), *self.others()])

    def _documents(self) -> list[OperationDocument]:
        """Return the operations that are stored here."""
        found = {operation["id"]: operation for _, operation in self._read_stored()}
        for key, operation in list(self._own.items()):
            if operation["stage"] in _ENDED and found.get(key) == operation:
                # The store says the same by now, and will forget it in its time.
                del self._own[key]
        found.update(self._own)
        return _ordered(found.values())

    def find(self, operation_id: str) -> OperationDocument | None:
        """Return an operation of any member as it is stored, None when it is not."""
        stored = self._store.system_get(OPERATION + operation_id)
        return None if stored is None else _unpack(stored)["operation"]

    def begin(self, kind: str, known_as: str | None = None) -> tuple[str, tuple[Put, ...]]:
        """Return a new operation's id, and what stores it and forgets the oldest for it.

        Args:
            kind: what is done.
            known_as: the id, when somebody waits for it by that; it must be nobody else's.
        """
        operation = self._new(kind, known_as)
        return operation["id"], self._add(operation)

    def early(self, kind: str) -> Callable[[str | None], None]:
        """Begin an operation on the store before that is open, which is not shown until `join`.

        Returns:
            What takes its end: why it failed, or None when it did its work. Without an end there
            was no operation.
        """
        operation = self._new(kind)

        def ended(error: str | None) -> None:
            stage = OperationStage.FINISHED if error is None else OperationStage.FAILED
            self._early.append(self._with_end(operation, stage, error))

        return ended

    def join(self, others: Collection[str] = ()) -> list[Put]:
        """Return what stores what `interrupted_puts` returns, then the early operations."""
        puts = self.interrupted_puts(others)
        early, self._early = self._early, []
        for operation in early:
            puts += self._add(operation)
        return puts

    def _new(self, kind: str, known_as: str | None = None) -> OperationDocument:
        return {
            "id": known_as or self._new_id(),
            "kind": kind,
            "stage": OperationStage.STARTED.value,
            "progress": 0,
            "error": None,
            "started": self._clock_ms(),
            "finished": None,
        }

    def _add(self, operation: OperationDocument) -> tuple[Put, ...]:
        known = self._documents()
        ended = [o["id"] for o in known if o["stage"] in _ENDED]
        surplus = ended[: max(0, len(known) + 1 - MAX_OPERATIONS)]
        for key in surplus:
            self._own.pop(key, None)
        put = self._change(operation)
        return put, *(Put(OPERATION + key, None) for key in surplus)

    def forget(self, operation_id: str) -> None:
        """Take back an operation whose beginning could not be stored."""
        self._own.pop(operation_id, None)

    def advance(self, operation_id: str, percent: int, waits_for: str | None = None) -> Put:
        """Return what stores the progress of an operation that this member began.

        What it waits for is shown as its error, as long as it does.
        """
        progress = min(max(percent, 0), COMPLETE_PERCENT)
        found = self._own[operation_id]
        going_on = {
            "stage": OperationStage.IN_PROGRESS.value,
            "progress": progress,
            "error": waits_for,
        }
        return self._change(cast("OperationDocument", {**found, **going_on}))

    def finish(self, operation_id: str) -> Put:
        """Return what stores that an operation of this member did all its work."""
        return self._end(self._own[operation_id], OperationStage.FINISHED, None)

    def fail(self, operation_id: str, error: str) -> Put:
        """Return what stores that an operation of this member gave up, and why."""
        return self._end(self._own[operation_id], OperationStage.FAILED, error)

    def interrupted_puts(self, others: Collection[str] = ()) -> list[Put]:
        """Return what stores that the operations have failed that nobody goes on with.

        Those of this member's last incarnation, and those of members that are not in the cluster:
        data that was restored has the operations of the member that it was a backup of. To be asked
        for when the store is there and before the first operation begins.

        Args:
            others: the UUIDs of the other members of the cluster.
        """
        return [
            self._end(operation, OperationStage.FAILED, "the member stopped before the end")
            for member, operation in self._read_stored()
            if member not in others and operation["stage"] not in _ENDED
        ]

    def _end(self, operation: OperationDocument, stage: OperationStage, error: str | None) -> Put:
        return self._change(self._with_end(operation, stage, error))

    def _with_end(
        self, operation: OperationDocument, stage: OperationStage, error: str | None
    ) -> OperationDocument:
        progress = COMPLETE_PERCENT if stage is OperationStage.FINISHED else operation["progress"]
        return {
            **operation,
            "stage": stage.value,
            "progress": progress,
            "error": error,
            "finished": self._clock_ms(),
        }

    def _change(self, operation: OperationDocument) -> Put:
        self._own[operation["id"]] = operation
        record: _Record = {"member": self._member_uuid(), "operation": operation}
        content = json.dumps(record, separators=(",", ":")).encode()
        return Put(OPERATION + operation["id"], content)

    def _read_stored(self) -> list[tuple[str, OperationDocument]]:
        records = [_unpack(value) for _, value in self._store.system_items(OPERATION)]
        return [(record["member"], record["operation"]) for record in records]


def _ordered(operations: Iterable[OperationDocument]) -> list[OperationDocument]:
    return sorted(operations, key=lambda operation: (operation["started"], operation["id"]))


def _unpack(stored: bytes) -> _Record:
    return cast("_Record", json.loads(stored))
