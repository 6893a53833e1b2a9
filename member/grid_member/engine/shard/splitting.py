"""Which operations of one tick travel together in a record of a log that members share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.engine.state.operation_table import OPERATIONS
from grid_member.engine.state.operations import MAX_OPERATIONS_PER_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grid_member.engine.state.operations import Operation

FEW_OPERATIONS: Final = 64
"""Whatever their names and content types, so many of them are no large record."""
MAX_RECORD_BYTES: Final = 256 * 1024
"""Bytes of operations that travel in one record; a larger operation travels alone."""
MAX_SYSTEM_BYTES: Final = 1024 * 1024
"""The same of operations on the cluster itself, which travel together when they can."""


def record_bounds(
    operations: Sequence[Operation],
    max_bytes: float = MAX_RECORD_BYTES,
    max_operations: int = MAX_OPERATIONS_PER_RECORD,
) -> Iterator[tuple[int, int]]:
    """Yield begin and end of what travels in one record, one record after the other."""
    start, size_bytes = 0, 0
    for place, operation in enumerate(operations):
        taken = OPERATIONS.taken_bytes(operation)
        full = size_bytes + taken > max_bytes
        if place > start and (full or place - start == max_operations):
            yield start, place
            start, size_bytes = place, 0
        size_bytes += taken
    yield start, len(operations)
