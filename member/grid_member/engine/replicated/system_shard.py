"""The first shard of a member that holds no data: what is about the cluster itself, and no more.

Its log is that of all members, which has maps and queues as well. They are left out here, where
they are read; so a snapshot of this state is none of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Reason, Refused
from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.state.machine import State
from grid_member.engine.state.operation_table import OPERATIONS
from grid_member.engine.state.snapshot import (
    EntryPart,
    ForgottenPart,
    ItemPart,
    QueuedPart,
    StampPart,
    TombstonePart,
    TrackedEntryPart,
    WanMapPart,
    WanPart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.state.operations import Operation
    from grid_member.engine.state.snapshot import Part

_PARTS_OF_DATA: Final = (
    *(EntryPart, TrackedEntryPart, ItemPart),
    *(WanPart, ForgottenPart, WanMapPart, StampPart, TombstonePart, QueuedPart),
)

_UNKNOWN: Final = Refused(
    Reason.UNAVAILABLE, "this member holds no data: only members with data know what came of it"
)


class SystemState(State):
    """A state machine without maps and queues."""

    def __init__(self) -> None:
        super().__init__()
        self._keeps_data = False
        self._active_handlers.update(dict.fromkeys(OPERATIONS.of_data, _left_out))
        self._passive_handlers.update(dict.fromkeys(OPERATIONS.of_data, _left_out))

    def load(self, parts: Sequence[Part]) -> None:
        """Add parts of a snapshot, but for data."""
        super().load([part for part in parts if not isinstance(part, _PARTS_OF_DATA)])


class SystemLog(JetStreamLog):
    """The log of such a shard: the members that hold the data write its snapshots."""

    def wants_snapshot(self, live_bytes: int) -> bool:
        """Never: this state is not what the log holds."""
        return False


def _left_out(operation: Operation, member: bytes, place: int, now_ms: int) -> Refused:
    """Hold no data, and know no outcome."""
    return _UNKNOWN
