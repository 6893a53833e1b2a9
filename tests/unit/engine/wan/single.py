"""A state to which a test applies one operation of WAN replication at a time."""

from __future__ import annotations

from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    MapPut,
    Operation,
    Outcome,
    Record,
    WanAcknowledge,
    WanAgree,
    WanMerge,
)
from grid_member.engine.wan.agreement import (
    Agreement,
    MergePolicy,
)
from grid_member.engine.wan.changes import Change, ChangeKind
from grid_member.engine.wan.stamps import EPOCH_MS, first_stamp
from tests.unit.engine.wan.agreements import LONDON, MEMBERS

OTHER = b"t" * 16
A, B = MEMBERS
NOW_MS = EPOCH_MS + 1_000_000
LATEST, PASS_THROUGH = MergePolicy.LATEST_UPDATE, MergePolicy.PASS_THROUGH
AHEAD = first_stamp(NOW_MS + 30_000)
"""Ahead of the clock of the first record, by less than is refused."""
PLACE_BITS = 16
"""Of a place, for the operations of one record."""


class Single:
    """Applies one operation at a time, a millisecond after the last."""

    def __init__(self, agreed: Agreement | None) -> None:
        self.state = State()
        self.now_ms = NOW_MS
        self.counter = 0
        if agreed is not None:
            self.apply(WanAgree(agreed))

    def apply(self, operation: Operation, member: bytes = A) -> Outcome:
        self.now_ms += 1
        self.counter += 1
        record = Record(member, 1, self.counter, (operation,))
        outcomes = self.state.apply(self.counter, self.now_ms, record)
        assert outcomes is not None
        return outcomes[0]

    def put(self, key: str, member: bytes = A) -> Outcome:
        return self.apply(MapPut("m", key, b"v", None, 0), member)

    def acknowledge_all(self, *names: str) -> None:
        """Acknowledge all that A took in of maps; of the map `m` when none is named."""
        before = ((self.counter + 1) << PLACE_BITS) - 1
        self.apply(WanAcknowledge(LONDON, tuple((name, A, before) for name in names or ("m",))))

    def merge(self, one: Change, policy: MergePolicy = LATEST) -> Outcome:
        return self.apply(WanMerge(one, policy, None))

    def queued(self, member: bytes = A, after: int = 0) -> list[tuple[str, ChangeKind]]:
        found = self.state.wan.read_queue(LONDON, "m", member, after, 99, 1 << 20, self.now_ms)
        return [(one.change.key, one.change.kind) for one in found]


def change(
    key: str,
    stamp: int,
    *,
    kind: ChangeKind = ChangeKind.PUT,
    value: bytes = b"w",
    passed: tuple[bytes, ...] = (OTHER,),
) -> Change:
    return Change("m", kind, key, stamp, value, None, 0, 0, passed)
