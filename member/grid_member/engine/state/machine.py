"""The state machine: what maps, queues and the cluster state mean.

Pure and deterministic: two states that were fed the same records are equal, byte for byte in
`dump()`, at every sequence. No clock, no randomness, no I/O; time is the log's timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.engine.api import ClusterState, Entry, Reason, Refused
from grid_member.engine.state import codec
from grid_member.engine.state import snapshot as snapshots
from grid_member.engine.state.maps import Maps
from grid_member.engine.state.operation_table import OPERATIONS, Handler, OperationTable
from grid_member.engine.state.operations import (
    ClusterStateChange,
    MapPut,
    MemberGone,
    Operation,
    Outcome,
    Record,
    TransientStateChange,
    made,
)
from grid_member.engine.state.queues import Queues
from grid_member.engine.state.system import SystemValues
from grid_member.engine.state.wan import Wan
from grid_member.engine.wan.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNTER_WINDOW: Final = 64
"""Records of one member that may arrive out of order; an older one counts as seen."""
_INDEX_BITS: Final = 16
_WINDOW_MASK: Final = (1 << COUNTER_WINDOW) - 1
_PASSIVE: Final = Refused(Reason.PASSIVE, "the cluster state is PASSIVE: writes are refused")


class State:
    """Maps, queues and system state of one shard, as of `sequence`."""

    def __init__(self, table: OperationTable = OPERATIONS) -> None:
        self.sequence = 0
        self.timestamp_ms = 0
        self.cluster_state = ClusterState.ACTIVE
        self.passive = False
        """Whether the cluster state is PASSIVE."""
        self.restart_state = ClusterState.ACTIVE
        """What a restart begins with: the cluster state, unless that is transient."""
        self.system: SystemValues = SystemValues()
        registry = Registry()
        self.maps: Maps = Maps(registry)
        self.wan: Wan = Wan(registry, self.maps)
        self._keeps_data = True
        """Whether what is put is kept, which a subclass may leave to others."""
        self.queues: Queues = Queues()
        self.members: dict[bytes, snapshots.MemberMark] = {}
        self._active_handlers = table.handlers(self)
        self._passive_handlers: dict[type[Operation], Handler] = {
            **self._active_handlers,
            **dict.fromkeys(table.refused_when_passive, _refuse),
        }
        self._handlers = self._active_handlers

    def apply(self, sequence: int, timestamp_ms: int, record: Record) -> list[Outcome] | None:
        """Apply the record and return the outcome of each operation; None when it was seen."""
        self.sequence = sequence
        now_ms = self.timestamp_ms
        if timestamp_ms > now_ms:
            self.timestamp_ms = now_ms = timestamp_ms
        member, incarnation, counter, operations = record
        if not self._first_time(member, incarnation, counter):
            return None
        maps, outcomes, place = self.maps, list[Outcome](), sequence << _INDEX_BITS
        for operation in operations:
            # An operation may change the cluster state, and the handlers with it.
            if type(operation) is MapPut and self._keeps_data and not self.passive:
                # As its handler does it: most.
                outcomes.append(maps.put(operation, member, place, now_ms))
            else:
                handler = self._handlers[type(operation)]
                outcomes.append(handler(operation, member, place, now_ms))
            place += 1
        return outcomes

    # Reads

    @property
    def live_bytes(self) -> int:
        """What lives, as it is in the log, about: the compactor's measure."""
        return (
            self.maps.live_bytes
            + self.queues.live_bytes
            + self.system.live_bytes
            + self.wan.live_bytes
        )

    def entry(self, name: str, key: str, now_ms: int) -> Entry | None:
        """Return the entry unless its time is over."""
        return self.maps.entry(name, key, now_ms)

    def queue_size(self, name: str) -> int:
        """Count the items that a take could get."""
        return self.queues.size(name)

    def takers(self) -> dict[bytes, int]:
        """Return the members that have items in flight, each with the incarnation that has them."""
        members = self.members
        return {
            taker: members[taker].incarnation for taker in self.queues.takers() if taker in members
        }

    # Snapshots

    def snapshot(self) -> snapshots.Snapshot:
        """Return an exact snapshot of this sequence; changes that follow do not touch it."""
        return snapshots.Snapshot(
            sequence=self.sequence,
            timestamp_ms=self.timestamp_ms,
            cluster_state=self.cluster_state,
            restart_state=self.restart_state,
            system=self.system.snapshot(),
            members=dict(self.members),
            maps=self.maps.snapshot(),
            queues=self.queues.snapshot(),
            wan=self.wan.snapshot(),
        )

    def load(self, parts: Sequence[snapshots.Part]) -> None:
        """Add parts of a snapshot to this state, which was empty before the first of them."""
        load_entry = self.maps.load
        for part in parts:
            if isinstance(part, snapshots.EntryPart):
                load_entry(part)  # nearly all of most snapshots
                continue
            match part:
                case snapshots.SystemPart():
                    self.sequence = part.sequence
                    self.timestamp_ms = part.timestamp_ms
                    self.restart_state = part.cluster_state
                    self._enter(part.cluster_state)
                case snapshots.RestartStatePart():
                    self.restart_state = part.cluster_state
                case snapshots.SystemValuePart():
                    self.system.load(part)
                case snapshots.MemberPart():
                    self.members[part.member] = part.mark
                case snapshots.ItemPart():
                    self.queues.load(part)
                case snapshots.TrackedEntryPart():
                    self.maps.load(part)
                case _:
                    self.wan.load(part)

    def dump(self) -> bytes:
        """Return canonical bytes: equal states have equal bytes."""
        return b"".join(
            codec.encode_part(part) for part in snapshots.parts(self.snapshot(), ordered=True)
        )

    # Applying: operation, member, place, now_ms

    def member_gone(self, operation: MemberGone, member: bytes, place: int, now_ms: int) -> None:
        """End the incarnation of a member, unless it is in another one already."""
        mark = self.members.get(operation.member)
        if mark is not None and mark.incarnation == operation.incarnation:
            self.queues.return_in_flight(operation.member)
            self.members[operation.member] = snapshots.MemberMark(mark.incarnation + 1, 0, 0)

    def change_cluster_state(
        self, operation: ClusterStateChange, member: bytes, place: int, now_ms: int
    ) -> bool:
        """Set the cluster state, and what a restart begins with."""
        self.restart_state = operation.state
        return self._enter(operation.state)

    def change_for_now(
        self, operation: TransientStateChange, member: bytes, place: int, now_ms: int
    ) -> bool:
        """Set the cluster state, and leave what a restart begins with."""
        return self._enter(operation.state)

    def _first_time(self, member: bytes, incarnation: int, counter: int) -> bool:
        mark = self.members.get(member)
        life, highest, window = (-1, 0, 0) if mark is None else mark
        if incarnation == life and counter > highest:
            if window != _WINDOW_MASK or counter != highest + 1:  # else it stays what it mostly is
                window = ((window << min(counter - highest, COUNTER_WINDOW)) | 1) & _WINDOW_MASK
            highest = counter
        elif incarnation > life:
            self.queues.return_in_flight(member)
            highest, window = counter, 1
        elif incarnation < life:
            return False
        else:
            bit = 1 << (highest - counter)
            if bit > _WINDOW_MASK or window & bit:
                return False
            window |= bit
        self.members[member] = made(snapshots.MemberMark, (incarnation, highest, window))
        return True

    def _enter(self, cluster_state: ClusterState) -> bool:
        """Be in the cluster state; False when it was that already."""
        changed = self.cluster_state is not cluster_state
        self.cluster_state = cluster_state
        self.passive = cluster_state is ClusterState.PASSIVE
        self._handlers = self._passive_handlers if self.passive else self._active_handlers
        return changed


def _refuse(operation: Operation, member: bytes, place: int, now_ms: int) -> Refused:
    return _PASSIVE
